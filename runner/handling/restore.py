"""What a task may change in its process, put back before the next one starts."""

import contextlib
import os
import signal
import sys
import threading

from .. import kernel


class ProcessState:
    """The state to come back to, taken once when the worker is ready.

    Restored: working directory, umask, environment, signal handlers and mask, timers, recursion limit,
    the three standard descriptors. Modules and their globals are shared by all tasks of a worker.
    """

    def __init__(self) -> None:
        self._cwd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._umask = os.umask(0o022)
        os.umask(self._umask)
        self._environment = dict(os.environ)
        self._handlers = {number: signal.getsignal(number) for number in _settable()}
        self._recursion = sys.getrecursionlimit()
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self.children = kernel.children_of(os.getpid())

    def restore(self) -> None:
        """Put everything back; cheap where nothing changed."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        with contextlib.suppress(OSError):
            os.fchdir(self._cwd)
        os.umask(self._umask)
        if dict(os.environ) != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        sys.setrecursionlimit(self._recursion)
        sys.stdin, sys.stdout, sys.stderr = self._streams
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()

    def kill_descendants(self) -> int:
        """Kill what the task has started and left running; how many there were.

        The worker is a subreaper, so orphans of its descendants are its children, too. Killing one
        may bring others to us, hence the rounds.
        """
        killed = 0
        for _ in range(100):
            left = kernel.children_of(os.getpid()) - self.children
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

    def is_disturbed(self) -> bool:
        """Whether threads are left that the next task would meet."""
        return threading.active_count() > 2  # the main thread and the lifeline


def _settable() -> set[signal.Signals]:
    return {
        number
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
        if isinstance(number, signal.Signals)
    }
