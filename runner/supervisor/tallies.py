"""The parent's counting: what has ended since the maintainer was last told, by type.

Telling never blocks: what does not fit into the channel, because nobody reads it, is told later.
"""

import socket

from ..tally import Tally, pack_tally
from ..wire import Outcome

PERIOD_SECONDS = 2.0


class Tallies:
    """The counts that the maintainer has not been told yet, and the channel to it."""

    def __init__(self) -> None:
        self.parent_end, self.reader_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.parent_end.setblocking(False)
        self._by_type: dict[int, Tally] = {}
        self._told_at = 0.0

    def ended(self, task_type: int, outcome: Outcome, seconds: float) -> None:
        """An attempt at a task of this type has ended."""
        tally = self._by_type.get(task_type)
        if tally is None:
            tally = self._by_type[task_type] = Tally(task_type)
        tally.ended(outcome, seconds)

    def tell(self, now: float, *, at_once: bool = False) -> None:
        """Once a period, hand over what there is."""
        if not self._by_type or not (at_once or now - self._told_at >= PERIOD_SECONDS):
            return
        self._told_at = now
        for tally in list(self._by_type.values()):
            try:
                self.parent_end.send(pack_tally(tally))
            except OSError:
                return
            del self._by_type[tally.type]

    def close(self) -> None:
        """Close both ends."""
        self.parent_end.close()
        self.reader_end.close()
