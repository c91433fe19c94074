"""What the parent works with: opened before the first fork, and shared with its children."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..permits import Permits
from .feed import Feed
from .renewals import Renewals
from .tallies import Tallies


@dataclass(frozen=True)
class Means:
    """The pipes and channels of a fleet, and what it serves by them.

    `events`: both ends of the pipe on which children speak. `log_fd`: the writing end of the log's.
    `sets`: the sets of queues that idle workers are counted by. `leased`: rows that are renewed beside
    the workers', such as a drain's lock. `permits`: of a drain that counts its tasks. `feed`: to the
    live view. `on_terminal`: a person sits there, and a hang-up means that they have gone.
    """

    events: tuple[int, int]
    log_fd: int
    renewals: Renewals
    tallies: Tallies
    sets: Sequence[tuple[str, ...] | None] = (None,)
    leased: Sequence[bytes] = ()
    permits: Permits | None = None
    feed: Feed | None = None
    on_terminal: bool = False
