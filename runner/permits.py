"""Permits to start a handler, as bytes in a pipe, so that `--max-tasks` counts handler starts exactly.

A worker takes permits before it claims, and gives back those that it has not used. Some die with a
worker; the parent makes them anew. It must never take one that is in somebody's hand for lost, so every
worker says in shared memory how many it may hold, before it takes any.
"""

import array
import fcntl
import mmap
import os
import termios
from collections.abc import Iterable

AT_ONCE = 8  # permits that a worker takes


class Permits:
    """Made before the fork; the parent tops up, workers take and give back by their slot."""

    def __init__(self, total: int, slots: int) -> None:
        self.total = total
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._hands = mmap.mmap(-1, max(1, slots))
        self._owed = total  # not yet in the pipe: it holds 64 KiB

    @property
    def ends(self) -> dict[str, int]:
        """The descriptors that a worker takes along."""
        return {"permits": self._read, "permits_back": self._write}

    # -- a worker ---------------------------------------------------------------------------------

    def take(self, slot: int, most: int = AT_ONCE) -> int:
        """Take up to `most`; how many there were."""
        self._hands[slot] = most
        try:
            taken = len(os.read(self._read, most))
        except BlockingIOError:
            taken = 0
        self._hands[slot] = taken
        return taken

    def give_back(self, slot: int, unused: int) -> None:
        """The batch is over: what was not used is for others."""
        if unused > 0:
            os.write(self._write, b"." * unused)
        self._hands[slot] = 0

    # -- the parent -------------------------------------------------------------------------------

    def top_up(self, starts: int, living: Iterable[int]) -> None:
        """Put what is still owed into the pipe; `living`: the slots whose hands count."""
        if not self._owed:
            self._owed = self._lost(starts, list(living))
        if self._owed:
            try:
                self._owed -= os.write(self._write, b"." * min(self._owed, 4096))
            except BlockingIOError:
                return

    def _lost(self, starts: int, living: list[int]) -> int:
        # Read on both sides of the pipe's: one that moves meanwhile is counted twice, never missed.
        before = [self._hands[slot] for slot in living]
        waiting = self._waiting()
        hands = sum(
            max(pair) for pair in zip(before, (self._hands[s] for s in living), strict=True)
        )
        return max(0, self.total - starts - waiting - hands)

    def forget(self, slot: int) -> None:
        """Nobody is left in this slot, and with it whatever was in its hand."""
        self._hands[slot] = 0

    def _waiting(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self._read, termios.FIONREAD, count)
        return count[0]
