"""Claiming: which kinds to look at, from where, and the one statement that takes tasks."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import class_row, scalar_row, tuple_row

from ..judge import Claim
from ..task import Report, Task, no_progress
from ..wire import Token
from .sql import query

STRATUM_SECONDS = 2.0


class Kind(NamedTuple):
    """What claims choose between."""

    queue: str
    task_type: str
    priority: int


@dataclass(slots=True)
class Place:
    """Where one worker is within a kind: the last shuffle it took, and the low-water mark."""

    at: float = float("-inf")
    mark: float = float("-inf")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a drain leaves, on the database's clock: tasks that failed since it began, and in a
    snapshot those that came later."""

    failed_before: datetime | None = None
    created_before: datetime | None = None


NO_BOUNDS = Bounds()


@dataclass(slots=True)
class Row:
    """A task as its claim returns it."""

    task_id: int
    queue: str
    task_type: str
    params: Any
    priority: int
    shuffle: float
    attempt: int
    max_attempts: int
    released: int
    fence: int
    solo: bool
    idempotency_key: str | None
    created_at: datetime

    @property
    def claim(self) -> Claim:
        """The numbers that its future depends on."""
        return Claim(
            self.task_id, self.fence, self.attempt, self.max_attempts, self.released, self.solo
        )

    def task(self, limit_at: float | None, report_progress: Report = no_progress) -> Task:
        """What its handler is given."""
        return Task(
            self.task_id,
            self.task_type,
            self.params,
            self.queue,
            self.attempt,
            self.max_attempts,
            self.idempotency_key,
            self.fence,
            self.created_at,
            limit_at,
            report_progress,
        )


@dataclass
class Places:
    """A worker's places in all kinds it has met lately."""

    of: dict[Kind, Place] = field(default_factory=dict)

    def know(self, kinds: Collection[Kind]) -> None:
        """Exactly these kinds exist for us now; places in those known already stay."""
        self.of = {kind: self.of.get(kind) or Place() for kind in kinds}

    def took(self, rows: Sequence[Row], stratum: float) -> None:
        """Go on behind these rows of one kind; after a wrap, nothing is left below them."""
        first = rows[0]
        place = self.of.setdefault(Kind(first.queue, first.task_type, first.priority), Place())
        if first.shuffle <= place.at:
            place.mark = max(place.mark, min(first.shuffle, stratum - 2))
        place.at = rows[-1].shuffle

    def found_nothing(self, stratum: float) -> None:
        """A look over every kind was empty: the marks rise to two strata ago, never above.

        Transactions that began before may still commit rows below; full looks find those.
        """
        for place in self.of.values():
            place.mark = max(place.mark, stratum - 2)
            place.at = max(place.at, place.mark)


def compose_claim(priorities: Mapping[str, int]) -> sql.Composed:
    """The claim statement with the CASE over the task type that `--priority` asks for."""
    whens = [
        sql.SQL("when {} then {}").format(_literal(name), sql.Literal(rank))
        for name, rank in priorities.items()
    ]
    rank: sql.Composable = sql.SQL("k.priority")
    if whens:
        rank = sql.SQL("case k.task_type {} else k.priority end").format(sql.SQL(" ").join(whens))
    return query("claim").format(rank=rank)


def _literal(text: str) -> sql.SQL:
    # The statement has parameters, so a % of the text must not look like one.
    return sql.SQL(sql.Literal(text).as_string().replace("%", "%%"))


def list_kinds(conn: psycopg.Connection[Any]) -> list[Kind]:
    """The kinds that have ready rows, known to us or not."""
    with conn.cursor(row_factory=class_row(Kind)) as cursor:
        return cursor.execute(query("kinds")).fetchall()


def database_seconds(conn: psycopg.Connection[Any]) -> float:
    """The database's clock, in seconds since the epoch."""
    with conn.cursor(row_factory=scalar_row) as cursor:
        found: float = cursor.execute(query("database_seconds")).fetchone() or 0.0
        return found


def claim(
    conn: psycopg.Connection[Any],
    statement: sql.Composed,
    worker_id: UUID,
    places: Places,
    most: Mapping[str, int],
    *,
    wanted: Callable[[str], int] = lambda task_type: 1,
    done: Collection[Token] = (),
    fair: bool = False,
    full: bool = False,
    bounds: Bounds = NO_BOUNDS,
) -> list[Row]:
    """Take tasks of one of the kinds in `places`, committed when this returns, in their order.

    `most` gives max_attempts by type for rows that have none yet; `wanted` says how many to take of a
    type; `done` are deleted on the way. `fair` leaves the CASE out; `full` looks below the low-water
    marks as well.
    """
    kinds = places.of
    values = {
        "worker_id": worker_id,
        "queues": [kind.queue for kind in kinds],
        "types": [kind.task_type for kind in kinds],
        "priorities": [kind.priority for kind in kinds],
        "ats": [place.at for place in kinds.values()],
        "marks": [place.mark for place in kinds.values()],
        "wanted": [wanted(kind.task_type) for kind in kinds],
        "done": [token.task_id for token in done],
        "done_fences": [token.fence for token in done],
        "known": list(most),
        "most": list(most.values()),
        "fair": fair,
        "last_lap": 2 if full else 1,
        "failed_before": bounds.failed_before,
        "created_before": bounds.created_before,
    }
    with conn.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(statement, values, prepare=True).fetchall()
    if rows[0][1] is None:
        return []
    return sorted((Row(*row[1:]) for row in rows), key=attrgetter("shuffle"))
