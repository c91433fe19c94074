"""When a fleet is through: never, or when a drain has come to its end. Pure: time is an argument."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..wire import Outcome
from .child import Child

AWAY_SECONDS = 60.0  # a drain gives up on a database that has been away for so long


@dataclass
class View:
    """What a goal may look at: the workers that are to stay, and what has happened."""

    workers: Sequence[Child] = ()
    now: float = 0.0
    started_at: float = 0.0
    changed_at: float = 0.0  # the last end of a claim, death, settle or promotion
    database_away_since: float | None = None
    leaving: int = 0  # workers that were sent off and still have something in hand, perhaps
    unsettled: int = 0  # claims of the dead to be ended, and hand-backs of the living
    backlog: int = 0  # kinds of runnable work, at the maintainer's last look
    looked_at: float = 0.0  # when that look began
    retry_is_near: bool = False  # and whether a failed task is waited for
    starts: int = 0  # handlers begun
    tally: Counter[Outcome] = field(default_factory=Counter)


class Goal(Protocol):
    """What the loop asks."""

    def workers_wanted(self, view: View) -> int:
        """How many workers there should be."""

    def reason_to_end(self, view: View) -> str | None:
        """Why the fleet should stop now, None while it should go on."""


@dataclass(frozen=True)
class RunForever:
    """A fleet that only a person or the system stops."""

    procs: int

    def workers_wanted(self, view: View) -> int:
        """All of them."""
        return self.procs

    def reason_to_end(self, view: View) -> str | None:
        """Never."""
        return None


@dataclass
class RunUntilDrained:
    """A drain: ends when every worker has found nothing since anything last changed.

    One empty claim proves nothing: a task that was running may have enqueued more, a death may have
    given one back. So each living worker must have begun a full look after the last change, and that
    look must have been empty.
    """

    procs: int
    first_workers: int
    max_seconds: float | None = None
    max_tasks: int | None = None
    linger_seconds: float = 0.0
    wait_retries: bool = False
    _wanted: int = 0

    def workers_wanted(self, view: View) -> int:
        """As many as there was work at first, then one more whenever work waits and nobody idles."""
        self._wanted = max(self._wanted, min(self.procs, self.first_workers))
        everyone_busy = len(view.workers) >= self._wanted and not any(
            child.idle or not child.registered for child in view.workers
        )
        if view.backlog and everyone_busy:
            self._wanted = min(self.procs, self._wanted + view.backlog)
        return self._wanted

    def reason_to_end(self, view: View) -> str | None:
        """`drained`, `max-time`, `max-tasks`, `database`, or None to go on."""
        if self.max_seconds is not None and view.now - view.started_at >= self.max_seconds:
            return "max-time"
        away = view.database_away_since
        if away is not None and view.now - away >= AWAY_SECONDS:
            return "database"
        at_work = any(child.work is not None for child in view.workers)
        busy = at_work or view.leaving or view.unsettled
        if self.max_tasks is not None and view.starts >= self.max_tasks and not busy:
            return "max-tasks"
        quiet_since = max(view.changed_at, view.started_at)
        if (
            not busy
            and view.workers
            # `idle` too: one that has claimed and not begun yet has an old look to show.
            and all(c.idle and c.idle_look > view.changed_at for c in view.workers)
            and view.now - quiet_since >= self.linger_seconds
            and not (self.wait_retries and self._awaits_retry(view))
        ):
            return "drained"
        return None

    @staticmethod
    def _awaits_retry(view: View) -> bool:
        return view.retry_is_near or view.looked_at <= view.changed_at
