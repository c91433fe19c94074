"""Where a worker looks for work, and how thoroughly each time."""

import random
from collections.abc import Callable, Collection, Sequence
from uuid import UUID

import psycopg

from ..clock import now
from ..config import FleetConfig
from ..places import COST_FACTOR, LAP_SECONDS, Kind, Places
from ..registry import Registry
from ..store.claim import NO_BOUNDS, Bounds, Claiming, Row, Values
from ..store.kinds import ServerClock, list_kinds, plan_anew
from ..store.tx import Tx
from ..wire import Token

LIST_SECONDS = 1.0  # kinds are listed anew at most so often …
WOKEN_LIST_SECONDS = 0.05  # … or so, when something woke us and the kinds we know had nothing
PLAN_SECONDS = 5.0  # plans are at most so old while there is work …
SLOW_SECONDS = 0.05  # … and are not used again when a look took longer than this
FULL_EVERY = 64  # a busy worker looks below its marks once in so many claims, where that is of use
DEFAULT_QUEUE, DEFAULT_PRIORITY = "default", 5


class Looking:
    """One session's memory of kinds and places, and the statement to claim with."""

    def __init__(
        self,
        conn: Tx,
        worker_id: UUID,
        config: FleetConfig,
        queues: Sequence[str] | None,
        registry: Registry,
        rng: random.Random,
        bounds: Bounds = NO_BOUNDS,
    ) -> None:
        self._conn = conn
        self._config = config
        self._queues = queues
        self._rng = rng
        self._most = {handler.name: handler.max_attempts for handler in registry}
        self._claiming = Claiming(conn, worker_id, self._most, config.priorities, bounds)
        self._ready: Values | None = None
        self._places = Places()
        self._clock = ServerClock(conn)
        self._list_at = self._full_at = self._to_the_end_at = float("-inf")
        self._lap_in_any_case_at = now() + LAP_SECONDS
        self._claims = 0
        self._planned_at = now()
        self._found = self._slow = False
        self.was_full = False
        self.woken = False

    def claim(
        self,
        wanted: Callable[[str], int],
        done: Collection[Token],
        cleared: Callable[[], None],
        *,
        full: bool,
        sent: Callable[[], None] = lambda: None,
    ) -> list[Row]:
        """Claim tasks of one kind; none after a look that found nothing anywhere it may look.

        `done` are deleted by the first statement, whatever it finds; then `cleared` is called. `sent` is
        called each time that a claim is sent.
        """
        self.was_full = not self._most  # and if this one fails, the one before tells nothing
        if not self._most:
            return []
        self._claims += 1
        self._wanted, self._sent = wanted, sent
        ready, self._ready = self._ready if self.woken else None, None
        # What woke us is most likely of a kind that we know: look first, and list if it is not.
        listed = not self.woken and self._list(LIST_SECONDS)
        lap = self._claims % FULL_EVERY == 0 and self._lap_is_due()
        rows = self._look(done, full=lap, ready=ready)
        cleared()
        news = False
        if not rows and not listed and (full or self.woken):
            news = self._list(0.0 if full else WOKEN_LIST_SECONDS)
        # Woken in vain: another was faster, or our marks are wrong, as when the database's clock was an
        # hour ahead when we connected. The next byte would wake us again, and nobody else.
        lap = full or self._lap_is_due() or (self.woken and now() >= self._full_at)
        self.woken = False
        if not rows and (lap or news):
            rows = self._look((), full=lap, to_the_end=full)
        self.was_full = lap and (listed or news)
        if not rows:
            self._places.found_nothing(self._clock.stratum())
            if self._places.risen and self._lap_is_due():
                # With that the marks have risen past what was in progress. Before we idle, and not when
                # we are next woken or poll: after a large drain under an old snapshot it is dear once.
                rows = self._look((), full=True)
        if rows:
            first, last = rows[0], rows[-1]
            self._places.took(first.kind, first.shuffle, last.shuffle, self._clock.stratum())
        return rows

    @property
    def lap_at(self) -> float:
        """When to look again though nothing wakes us, after a look that found nothing.

        A lap that was put off because the one before it was dear is made then, and not for the next
        task, which would have to wait for it. Once: one that clears nothing is not repeated.
        """
        return self._full_at if self._places.risen else float("inf")

    def be_ready(self, wanted: Callable[[str], int]) -> None:
        """Compose the next claim before we idle: who is woken has but to send it."""
        self._ready = self._compose(wanted) if self._most else None

    def _compose(
        self, wanted: Callable[[str], int], *, full: bool = False, to_the_end: bool = True
    ) -> Values:
        fair = self._rng.random() < self._config.fair
        return self._claiming.compose(
            self._places, wanted=wanted, fair=fair, full=full, to_the_end=to_the_end
        )

    def _lap_is_due(self) -> bool:
        """Whether to look below the marks: where somebody may have committed late, as often as that is
        cheap; and now and then in any case, should the database's clock have been set back."""
        at = now()
        return at >= self._lap_in_any_case_at or (
            bool(self._places.unclean) and at >= self._full_at
        )

    def _plan_anew(self) -> None:
        """A plan is made for the table as large as it was then. One for a few rows reads them all: when
        300,000 more came at once, each claim and each completion did, until the next ANALYZE."""
        old = now() >= self._planned_at + PLAN_SECONDS
        if self._slow or (old and (self.woken or self._found)):
            plan_anew(self._conn)
            self._planned_at = now()

    def _look(
        self,
        done: Collection[Token],
        *,
        full: bool,
        to_the_end: bool = False,
        ready: Values | None = None,
    ) -> list[Row]:
        self._plan_anew()
        self._slow = True  # unless it comes through in time
        begun = now()
        to_the_end = to_the_end or begun >= self._to_the_end_at
        if full:
            self._places.know_all()
        if full or ready is None:
            ready = self._compose(self._wanted, full=full, to_the_end=to_the_end)
        self._places.begin(self._clock.stratum())
        try:
            rows = self._claiming.claim(ready, self._places, done=done, sent=self._sent)
        except psycopg.Error:
            if full:  # else each look from now on would make one, and fail with it
                self._full_at = self._lap_in_any_case_at = now() + LAP_SECONDS
            raise
        at = now()
        self._found, self._slow = bool(rows), at - begun > SLOW_SECONDS
        if full:
            if not rows:
                self._places.made_lap()
            # A held snapshot keeps consumed rows in the index: do not wade through them all the time.
            wait = COST_FACTOR * self._config.procs * (at - begun) if at - begun > 0.005 else 0.0
            self._full_at = at + wait
            if to_the_end:
                self._lap_in_any_case_at = at + max(LAP_SECONDS, wait)
                self._to_the_end_at = self._lap_in_any_case_at if wait else at
        return rows

    def _list(self, at_least_seconds: float) -> bool:
        """List the kinds anew if that is due; True when it was done.

        At zero it is due whatever a list costs: the end of a drain hangs on it.
        """
        begun = now()
        if at_least_seconds and begun < self._list_at - LIST_SECONDS + at_least_seconds:
            return False
        self._places.begin(self._clock.stratum())
        found = list_kinds(self._conn, self._places, draw=True)
        listed = [kind for kind in found if self._ours(kind)]
        # What others have consumed while we slept is walked through once, and not by the claim again.
        self._places.listed(listed, self._clock.stratum())
        cost = now() - begun
        self._list_at = begun + max(LIST_SECONDS, COST_FACTOR * self._config.procs * cost)
        queues = self._queues  # may be empty: a worker that no queue is left for
        if queues is None:
            queues = list({DEFAULT_QUEUE, *(kind.queue for kind in listed)})
        defaults = [
            Kind(queue, task_type, DEFAULT_PRIORITY) for queue in queues for task_type in self._most
        ]
        self._places.know([*listed, *defaults])
        return True

    def _ours(self, kind: Kind) -> bool:
        return kind.task_type in self._most and (self._queues is None or kind.queue in self._queues)
