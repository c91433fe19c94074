"""When to look for running tasks that no worker's row stands behind.

There should never be one, and the look has no index of its own: under an old snapshot it wades through
everything that ran since, in the end for longer than a statement may take.
"""

import psycopg

from ..clock import now
from ..store import passes

CHEAP_SECONDS = 0.005
SHARE = 1000  # a dear look takes at most one part of so many of the time
LONGEST_SECONDS = 600.0


class Orphans:
    """How long the next look is put off, by what the last one took."""

    def __init__(self) -> None:
        self._due_at = float("-inf")

    def wait(self, conn: psycopg.Connection[object]) -> bool:
        """Whether there are some, as far as it is time to look. One that fails counts as one that was
        dear: else each sweep would fail at it, and no lease would be taken."""
        begun = now()
        if not self.are_due(begun):
            return False
        try:
            return passes.orphans_wait(conn)
        finally:
            self.looked(begun, now())

    def are_due(self, now: float) -> bool:
        """Whether to look now."""
        return now >= self._due_at

    def looked(self, begun: float, ended: float) -> None:
        """A look is over."""
        dear = max(0.0, ended - begun - CHEAP_SECONDS)
        self._due_at = begun + min(LONGEST_SECONDS, SHARE * dear)
