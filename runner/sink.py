"""A stream that its reader may hold up: what it does not take at once is kept, and nobody waits.

A terminal after Ctrl-S and a pager that is not scrolled block a write for hours. Whoever must go on all
the same writes through a `Sink`, with `select` on its descriptor while something is pending.
"""

import contextlib
import os
import select
import stat
import sys
import time

PIECE = 4096  # PIPE_BUF: a pipe that select calls writable takes so much without blocking
LIMIT = 1 << 18


class Sink:
    """Writes to `fd` without waiting. `closed`: nobody reads any more, everything goes nowhere."""

    def __init__(self, fd: int, limit: int = LIMIT) -> None:
        self.fd = fd
        self.closed = False
        self._limit = limit
        self._pending = bytearray()

    @property
    def pending(self) -> bool:
        """Whether something waits for the reader."""
        return bool(self._pending)

    @property
    def full(self) -> bool:
        """Whether so much waits that no more should be added."""
        return len(self._pending) >= self._limit

    def write(self, data: bytes) -> None:
        """Add bytes, and write what is taken at once."""
        if not self.closed:
            self._pending += data
            self.flush()

    def say(self, line: str) -> None:
        """Add a line in the encoding of standard error: to a terminal of another one the bytes of UTF-8
        may be orders. What it cannot say is escaped."""
        encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
        self.write(line.encode(encoding, "backslashreplace") + b"\n")

    def flush(self) -> None:
        """Write as much as is taken without waiting."""
        try:
            while self._pending and select.select([], [self.fd], [], 0)[1]:
                del self._pending[: os.write(self.fd, self._pending[:PIECE])]
        except BlockingIOError:
            pass
        except (OSError, ValueError):
            self.closed = True
            self._pending.clear()

    def drain(self, seconds: float) -> None:
        """Wait for the reader, so long and no longer."""
        end = time.monotonic() + seconds
        self.flush()
        while self._pending and (left := end - time.monotonic()) > 0:
            with contextlib.suppress(OSError, ValueError):
                select.select([], [self.fd], [], left)
            self.flush()

    def forget(self) -> None:
        """Drop what waits."""
        self._pending.clear()


def opened_anew(fd: int, flags: int = os.O_WRONLY) -> int:
    """The same pipe or terminal with an open file description of its own that never blocks.

    Setting O_NONBLOCK on `fd` itself would set it for everybody who shares it, the shell included. Of a
    file or socket, and where the system refuses, it is a plain duplicate.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        with contextlib.suppress(OSError):
            more = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{fd}", flags | more)
    return os.dup(fd)
