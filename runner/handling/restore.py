"""What a task may change in its process, put back before the next one starts."""

import contextlib
import faulthandler
import importlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any

from .. import kernel

# What `signal` wraps: its enums cost ten times the look itself, at every task.
_signal = importlib.import_module("_signal")
_getsignal: Callable[[int], Any] = _signal.getsignal
_sigmask: Callable[[int, Iterable[int]], Any] = _signal.pthread_sigmask

SHORT_SECONDS = 0.005  # after a task as short as this only what is likely is looked at
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
# Whose handlers are looked at behind each task. To stop the other two timers costs a call of the system
# each, and whoever sets one has a handler for it, which would strike in another task.
WATCHED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGCHLD, signal.SIGPIPE,
    signal.SIGVTALRM, signal.SIGPROF,
)  # fmt: skip


class ProcessState:
    """The state to come back to, taken once when the worker is ready.

    Restored: working directory, umask, environment, signal handlers and mask, timers, recursion limit,
    the three standard streams; processes left running are killed. Modules and their globals are shared
    by all tasks of a worker.
    """

    def __init__(self) -> None:
        self._cwd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._umask = os.umask(0o022)
        os.umask(self._umask)
        self._environment = dict(os.environ)
        self._raw_environment = _raw_environment().copy()
        self._handlers = {int(number): _getsignal(number) for number in _settable()}
        self._watched = [self._handlers[number] for number in WATCHED]
        self._recursion = sys.getrecursionlimit()
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self._children = kernel.children_of(os.getpid())

    def restore(self, began: float = 0.0) -> int:
        """Put back what a task that began then (time.monotonic) has changed; how many processes were
        left running, and are killed. What is unlikely of a short one waits for `restore_all`."""
        signal.alarm(0)  # ITIMER_REAL, for less than `setitimer`
        faulthandler.cancel_dump_traceback_later()
        try:  # cheaper than `suppress`, and this is done at every task
            os.fchdir(self._cwd)
        except OSError:
            pass
        os.umask(self._umask)
        if _raw_environment() != self._raw_environment:
            os.environ.clear()
            os.environ.update(self._environment)
            time.tzset()  # TZ may be among it, and has told the C library what time it is
        sys.setrecursionlimit(self._recursion)
        sys.stdin, sys.stdout, sys.stderr = self._streams
        as_before = all(
            map(is_, map(_getsignal, WATCHED), self._watched)
        )  # without a step of Python's
        if not as_before or time.monotonic() - began > SHORT_SECONDS:
            self.restore_all()
        return self._kill_descendants() if self._children or _has_children() else 0

    def restore_all(self) -> None:
        """Put back the rest, at the end of a batch: that is 50 ms of tasks of one type."""
        for timer in TIMERS:
            signal.setitimer(timer, 0)
        for number, handler in self._handlers.items():
            if handler is not None and _getsignal(number) is not handler:
                signal.signal(number, handler)
        _sigmask(signal.SIG_SETMASK, ())

    def _kill_descendants(self) -> int:
        # The worker is a subreaper, so orphans of its descendants are its children, too. Killing one
        # may bring others to us, hence the rounds.
        killed = 0
        for _ in range(100):
            left = kernel.children_of(os.getpid()) - self._children
            if not left:
                break
            for pid in left:
                killed += kernel.state_of(pid) != "Z"
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            for pid in left:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
        return killed


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _raw_environment() -> dict[bytes, bytes]:
    # What os.environ keeps: comparing that is twenty times cheaper than decoding all of it.
    raw: dict[bytes, bytes] | None = getattr(os.environ, "_data", None)
    return raw if raw is not None else dict(os.environb)


def _settable() -> set[signal.Signals]:
    return {
        number
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
        if isinstance(number, signal.Signals)
    }
