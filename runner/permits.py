"""Permits to start a handler, as bytes in a pipe, so that `--max-tasks` counts handler starts exactly.

A worker takes permits before it claims, and gives back those that it has not used. Some die with a
worker; the parent makes them anew. It must never take one that is in somebody's hand for lost, so every
worker says in shared memory how many it may hold, before it takes any.
"""

import array
import contextlib
import fcntl
import mmap
import os
import termios
from collections.abc import Iterable

AT_ONCE = 8  # permits that a worker takes
MOST_WAITING = (
    2048  # that the parent puts there: a pipe, where a user has many, may hold 4 KiB only
)


class Permits:
    """Made before the fork; the parent tops up, workers take and give back, each with its own hand."""

    def __init__(self, total: int, hands: int) -> None:
        self.total = total
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._hands = mmap.mmap(-1, max(1, hands))
        self._owed = total  # not yet in the pipe
        self._covered: int | None = None  # were in the pipe or in hands at the last look

    @property
    def ends(self) -> dict[str, int]:
        """The descriptors that a worker takes along."""
        return {"permits": self._read, "permits_back": self._write}

    # -- a worker ---------------------------------------------------------------------------------

    def take(self, hand: int, most: int = AT_ONCE) -> int:
        """Take up to `most`; how many there were."""
        self._hands[hand] = most
        try:
            taken = len(os.read(self._read, most))
        except BlockingIOError:
            taken = 0
        self._hands[hand] = taken
        return taken

    def give_back(self, hand: int, unused: int, kept: int = 0) -> None:
        """What is not used is for others; `kept` stay in the hand."""
        if unused > 0:
            with contextlib.suppress(
                BlockingIOError
            ):  # no room: the parent misses them, and makes them anew
                os.write(self._write, b"." * unused)
        self._hands[hand] = kept

    # -- the parent -------------------------------------------------------------------------------

    def top_up(self, starts: int, living: Iterable[int]) -> None:
        """Put what is owed into the pipe. `starts`: all that was heard of until now; `living`: whose
        hands count.

        What is covered, in the pipe or in a hand, was looked up at the call before, and starts were
        heard since: a handler that began before that look, and whose hand was empty at it, has been
        heard of. The other way round its permit would be made anew.
        """
        if not self._owed and self._covered is not None:
            self._owed = max(0, self.total - starts - self._covered)
        self._covered = None
        if not self._owed:
            self._covered = self._look(list(living))
            return
        # What is in hands must find room when it comes back.
        if (room := min(self._owed, MOST_WAITING - self._waiting())) > 0:
            with contextlib.suppress(BlockingIOError):
                self._owed -= os.write(self._write, b"." * room)

    def _look(self, living: list[int]) -> int:
        # Read on both sides of the pipe's: one that moves meanwhile is counted twice, never missed.
        before = [self._hands[hand] for hand in living]
        waiting = self._waiting()
        return waiting + sum(
            max(pair) for pair in zip(before, (self._hands[h] for h in living), strict=True)
        )

    def forget(self, hand: int) -> None:
        """Whose hand this was is gone, and with it whatever was in it."""
        self._hands[hand] = 0

    def _waiting(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self._read, termios.FIONREAD, count)
        return count[0]
