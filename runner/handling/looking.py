"""Where a worker looks for work, and how thoroughly each time."""

import random
from collections.abc import Callable, Collection, Sequence
from uuid import UUID

from ..clock import now
from ..config import FleetConfig
from ..registry import Registry
from ..store.claim import (
    NO_BOUNDS,
    STRATUM_SECONDS,
    Bounds,
    Kind,
    Places,
    Row,
    claim,
    compose_claim,
    database_seconds,
    list_kinds,
)
from ..store.tx import Tx
from ..wire import Token

LIST_SECONDS = 1.0  # kinds are listed anew at most so often …
WOKEN_LIST_SECONDS = 0.05  # … or so, when something woke us and the kinds we know had nothing
COST_FACTOR = 20  # … and never sooner than this many times what it cost, times the workers
FULL_EVERY = 64  # a busy worker looks below its marks once in so many claims
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
        self._worker_id = worker_id
        self._config = config
        self._queues = queues
        self._rng = rng
        self._bounds = bounds
        self._statement = compose_claim(config.priorities)
        self._most = {handler.name: handler.max_attempts for handler in registry}
        self._places = Places()
        self._clock_offset = database_seconds(conn) - now()
        self._list_at = self._full_at = float("-inf")
        self._claims = 0
        self.was_full = False
        self.woken = False

    def claim(
        self,
        wanted: Callable[[str], int],
        done: Collection[Token],
        cleared: Callable[[], None],
        *,
        full: bool,
    ) -> list[Row]:
        """Claim tasks of one kind; none after a look that found nothing anywhere it may look.

        `done` are deleted by the first statement, whatever it finds; then `cleared` is called.
        """
        if not self._most:
            self.was_full = True
            return []
        self._claims += 1
        self._wanted = wanted
        # What woke us is most likely of a kind that we know: look first, and list if it is not.
        listed = not self.woken and self._list(LIST_SECONDS)
        deep = self._claims % FULL_EVERY == 0
        rows = self._look(done, full=deep and now() >= self._full_at)
        cleared()
        if not rows and not listed:
            listed = (full or self.woken) and self._list(0.0 if full else WOKEN_LIST_SECONDS)
        self.woken = False
        if not rows:
            # Transactions that committed late leave rows below the marks: a full lap at once.
            self.was_full = full or now() >= self._full_at
            if self.was_full:
                rows = self._look((), full=True)
            self.was_full = self.was_full and (listed or not full)
        if rows:
            self._places.took(rows, self._stratum())
        else:
            self._places.found_nothing(self._stratum())
        return rows

    def _look(self, done: Collection[Token], *, full: bool) -> list[Row]:
        begun = now()
        rows = claim(
            self._conn,
            self._statement,
            self._worker_id,
            self._places,
            self._most,
            wanted=self._wanted,
            done=done,
            fair=self._rng.random() < self._config.fair,
            full=full,
            bounds=self._bounds,
        )
        if full and (cost := now() - begun) > 0.005:
            # A held snapshot keeps consumed rows in the index: do not wade through them all the time.
            self._full_at = now() + COST_FACTOR * self._config.procs * cost
        return rows

    def _list(self, at_least_seconds: float) -> bool:
        """List the kinds anew if that is due; True when it was done."""
        begun = now()
        if begun < self._list_at - LIST_SECONDS + at_least_seconds:
            return False
        listed = [kind for kind in list_kinds(self._conn) if self._ours(kind)]
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

    def _stratum(self) -> float:
        return (now() + self._clock_offset) // STRATUM_SECONDS
