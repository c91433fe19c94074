"""The workers by the sets of queues that they serve: how many idle, and waking some."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

from ..clock import now

BUSY_SECONDS = 1.0  # `idle` is taken back after so long without anybody idle


@dataclass
class Group:
    """The workers that serve one set of queues, and the pipe that wakes them."""

    queues: tuple[str, ...] | None
    wake: int
    idle: int = 0

    def serves(self, queue: str) -> bool:
        """Whether its workers claim from this queue."""
        return self.queues is None or queue in self.queues

    def wake_some(self, count: int) -> None:
        """As many bytes as there are tasks, or idle workers; each wakes one. More tasks than bytes
        say are found all the same: a worker that was woken and found work wakes the next."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(min(count, self.idle)):
                os.write(self.wake, b".")  # each by itself: a write wakes one, whatever it holds


class Groups:
    """All of them, and since when somebody idles or nobody does."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = groups
        self.idle_since: float | None = None
        self._busy_since: float | None = now()
        self.said_idle = False  # what enqueuers see

    def set_idle(self, group: int, count: int) -> bool:
        """So many of a group idle now; True when with that somebody begins to idle."""
        self._groups[group].idle = count
        idle = any(one.idle for one in self._groups)
        if idle and self.idle_since is None:
            self.idle_since, self._busy_since = now(), None
            return True
        if not idle and self.idle_since is not None:
            self.idle_since, self._busy_since = None, now()
        return False

    def to_say(self) -> bool | None:
        """What enqueuers should see from now on; None while that is what they see. Not every change
        of a busy fleet is worth a write: idle at once, busy only after a second."""
        if self.idle_since is not None:
            return None if self.said_idle else True
        return False if self.said_idle and now() >= self.busy_at() else None

    def busy_at(self) -> float:
        """The local time at which nobody will have been idle for long enough to say so."""
        if not self.said_idle or self._busy_since is None:
            return float("inf")
        return self._busy_since + BUSY_SECONDS

    def wake(self, queue: str = "", count: int = 1) -> None:
        """Wake so many workers of every group that serves this queue ('': whatever it serves)."""
        for group in self._groups:
            if not queue or group.serves(queue):
                group.wake_some(count)

    def wake_for(self, queues: set[str]) -> None:
        """Wake one worker of every group that serves one of these queues."""
        for group in self._groups:
            if any(group.serves(queue) for queue in queues):
                group.wake_some(1)
