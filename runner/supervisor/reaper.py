"""Deaths: who has ended, in words, and what it leaves behind."""

import contextlib
import os
import signal
from collections.abc import Collection
from dataclasses import dataclass

from .. import kernel
from ..room import NO_ROOM


@dataclass(frozen=True, slots=True)
class Death:
    """The end of one process: the exit code, or the signal that ended it."""

    pid: int
    code: int | None
    signal: int | None
    peak_bytes: int = 0  # the most memory that it had

    @property
    def cause(self) -> str:
        """What is stored and logged: a name, not a number."""
        if self.code == NO_ROOM:
            return "no room for its threads, files or memory"
        if self.signal is None:
            return f"exit code {self.code}"
        try:
            name = signal.Signals(self.signal).name
        except ValueError:
            name = f"signal {self.signal}"
        return f"{name} (perhaps out of memory)" if self.signal == signal.SIGKILL else name

    @property
    def by_kill(self) -> bool:
        """Whether SIGKILL ended it: ours, the kernel timer's, or the out-of-memory killer's."""
        return self.signal == signal.SIGKILL


def next_dead() -> int | None:
    """The pid of a child that has ended and is not reaped yet; it stays a zombie, so the pid is
    still safe to use."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if found is None else found.si_pid


def reap(pid: int) -> Death:
    """Take a dead child off the process table."""
    _, status, usage = os.wait4(pid, 0)
    code, peak = os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024
    return Death(pid, None, -code, peak) if code < 0 else Death(pid, code, None, peak)


def kill_group(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Signal a child and everything in its group; only for a pid that is not reaped yet."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            os.kill(pid, number)  # it has not come to its setsid yet


def kill_strays(ours: Collection[int], spared: Collection[int]) -> None:
    """Kill what dead workers left: children of this process that it never started.

    As PID 1 other people's orphans arrive here too, so there they are left alone.
    """
    if os.getpid() == 1:
        return
    for pid in kernel.children_of(os.getpid()) - set(ours) - set(spared):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
