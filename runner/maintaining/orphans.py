"""When to look for running tasks that no worker's row stands behind. Pure: the clock is an argument.

There should never be one, and the look has no index of its own: under an old snapshot it wades through
everything that ran since.
"""

CHEAP_SECONDS = 0.005
SHARE = 1000  # a dear look takes at most one part of so many of the time
LONGEST_SECONDS = 600.0


class Orphans:
    """How long the next look is put off, by what the last one took."""

    def __init__(self) -> None:
        self._due_at = float("-inf")

    def are_due(self, now: float) -> bool:
        """Whether to look now."""
        return now >= self._due_at

    def looked(self, begun: float, ended: float) -> None:
        """A look is over."""
        dear = max(0.0, ended - begun - CHEAP_SECONDS)
        self._due_at = begun + min(LONGEST_SECONDS, SHARE * dear)
