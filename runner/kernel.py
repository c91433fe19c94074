"""What we need of the kernel and Python does not offer: all of it Linux, all of it small."""

import ctypes
import fcntl
import os
import signal
import struct
import sys
from collections.abc import Iterable

from . import clock

_LINUX = sys.platform.startswith("linux")
_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_CHILD_SUBREAPER = 36
_TIMER_ABSTIME = 1
_F_SETSIG = 10
_ARG_START = 45  # of the fields of /proc/PID/stat behind the name; the next one is the end


class DeathTimer:
    """A timer in the kernel that kills this process at a local time, whatever it is doing.

    SIGKILL needs no Python, no GIL and no scheduling of ours: it strikes in the middle of a C call,
    with every signal blocked, and while the process is stopped. Timers are not inherited by fork, so
    it is made in the process that it guards. `available` is False where there is no such timer.
    """

    def __init__(self, enabled: bool = True) -> None:
        self.available = enabled and _LINUX
        if not self.available:
            return
        event = ctypes.create_string_buffer(64)  # struct sigevent: value, signal, notify
        struct.pack_into("=qii", event, 0, 0, signal.SIGKILL, 0)
        self._id = ctypes.c_void_p()
        if _libc.timer_create(clock.CLOCK_ID, event, ctypes.byref(self._id)) != 0:
            self.available = False

    def arm(self, at: float) -> None:
        """Die at local time `at` (seconds), or at once if that is past; replaces what was set."""
        # A value of zero would disarm: keep it at least a nanosecond.
        self._set(max(at, 1e-9))

    def disarm(self) -> None:
        """Live on."""
        self._set(0.0)

    def _set(self, at: float) -> None:
        if not self.available:
            return
        seconds = int(at)
        spec = struct.pack("=qqqq", 0, 0, seconds, max(1 if at else 0, int((at - seconds) * 1e9)))
        _libc.timer_settime(self._id, _TIMER_ABSTIME, spec, None)


def overwrite_arguments(secrets: Iterable[str]) -> None:
    """Put stars over these texts where the kernel reads the command line of this process; nothing
    where that cannot be found. Children that are forked later show the stars as well."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return
    start, end = int(fields[_ARG_START]), int(fields[_ARG_START + 1])
    if not 0 < start < end:
        return
    area = (ctypes.c_char * (end - start)).from_address(start)
    line: bytes = area.raw
    for secret in map(os.fsencode, secrets):
        line = line.replace(secret, b"*" * len(secret))
    area.raw = line


def become_subreaper() -> None:
    """Orphaned descendants come to this process instead of init; nothing where that is unknown."""
    if _LINUX:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_pipe(fd: int, group: int) -> bool:
    """Have the kernel SIGKILL the process group when the pipe `fd` reads from loses its writer.

    No data may ever be written to it. Returns False where the kernel cannot do that.
    """
    if not _LINUX:
        return False
    fcntl.fcntl(fd, fcntl.F_SETOWN, -group)
    fcntl.fcntl(fd, _F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    return True


def close_all_but(keep: Iterable[int]) -> None:
    """Close every descriptor of this process except 0-2 and `keep`: a child takes no strangers."""
    kept = sorted({0, 1, 2, *keep})
    for low, high in zip(kept, [*kept[1:], _max_fd() + 1], strict=True):
        os.closerange(low + 1, high)


def _max_fd() -> int:
    try:
        return max(int(name) for name in os.listdir("/proc/self/fd"))
    except (OSError, ValueError):
        return 4096


def children_of(pid: int) -> set[int]:
    """Pids of the living children of a process, zombies included; empty when it is gone."""
    found: set[int] = set()
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found.update(int(word) for word in file.read().split())
        except (OSError, ValueError):
            continue
    return found


def state_of(pid: int) -> str:
    """One letter from the process table: R, S, D, T (stopped), Z (zombie); '' when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


def rss_of(pid: int) -> int:
    """Resident memory of a process in bytes; 0 when it is gone or unknown."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


_PAGE = os.sysconf("SC_PAGE_SIZE")
