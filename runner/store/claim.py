"""Claiming: which kinds to look at, from where, and the one statement that takes tasks."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import scalar_row, tuple_row

from ..clock import now
from ..judge import Claim
from ..places import NOBODY_KNOWS, STRATUM_SECONDS, Kind, Places, Snapshot
from ..task import Report, Task, no_progress
from ..wire import Token
from .arrays import numbers, texts
from .sql import query, whole


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a drain leaves, on the database's clock: tasks that failed since it began, and in a
    snapshot those that came later."""

    failed_before: datetime | None = None
    created_before: datetime | None = None


NO_BOUNDS = Bounds()
# The server's JSON has no blanks around it, which `loads` would look for.
_JSON = json.JSONDecoder()


@dataclass(slots=True)
class Row:
    """A task as its claim returns it."""

    task_id: int
    queue: str
    task_type: str
    params: str  # JSON, read when the handler starts
    priority: int
    shuffle: float
    attempt: int
    max_attempts: int
    released: int
    fence: int
    solo: bool
    idempotency_key: str | None
    created_at: datetime
    ctid: str

    @property
    def kind(self) -> Kind:
        """What it was found among."""
        return Kind(self.queue, self.task_type, self.priority)

    @property
    def claim(self) -> Claim:
        """The numbers that its future depends on."""
        return Claim(
            self.task_id,
            self.fence,
            self.attempt,
            self.max_attempts,
            self.released,
            self.solo,
            self.ctid,
        )

    def task(self, limit_at: float | None, report_progress: Report = no_progress) -> Task:
        """What its handler is given."""
        return Task(
            self.task_id,
            self.task_type,
            _JSON.raw_decode(self.params)[0],
            self.queue,
            self.attempt,
            self.max_attempts,
            self.idempotency_key,
            self.fence,
            self.created_at,
            limit_at,
            report_progress,
        )


def compose_claim(priorities: Mapping[str, int], *, clearing: bool = True) -> bytes:
    """The claim statement with the CASE over the task type that `--priority` asks for; `clearing`: it
    deletes what is done on the way."""
    whens = [
        sql.SQL("when {} then {}").format(_literal(name), sql.Literal(rank))
        for name, rank in priorities.items()
    ]
    rank: sql.Composable = sql.SQL("k.priority")
    if whens:
        rank = sql.SQL("case k.task_type {} else k.priority end").format(sql.SQL(" ").join(whens))
    gone: sql.Composable = sql.SQL("")
    if clearing:
        gone = query("gone").format(delete_done=whole("delete_done", "claimed_rows"))
    return query("claim").format(rank=rank, gone=gone).as_bytes()


def _literal(text: str) -> sql.SQL:
    # The statement has parameters, so a % of the text must not look like one.
    return sql.SQL(sql.Literal(text).as_string().replace("%", "%%"))


def list_kinds(
    conn: psycopg.Connection[Any],
    places: Places | None = None,
    *,
    down_to: float = float("inf"),
    draw: bool = False,
) -> list[Kind]:
    """The kinds that have ready rows: of those in `places` above their marks, or this where it is
    lower, and any that are not known there. With `draw` the snapshot is good for raising marks."""
    met = places.met if places is not None else {}
    marks = [min(place.mark, down_to) for place in met.values()]
    values = _arrays(met) | {"marks": marks, "draw": draw}
    with conn.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(query("kinds"), values, prepare=True).fetchall()
    if places is not None:
        places.saw(_snapshot(*rows[0][:2]))
    return [Kind(*row[2:]) for row in rows if row[2] is not None]


def plan_anew(conn: psycopg.Connection[Any]) -> None:
    """The session forgets its plans, those inside of functions too."""
    conn.execute(query("plan_anew"), prepare=False)


def _snapshot(xmin: int, own: int | None) -> Snapshot:
    return Snapshot(xmin, NOBODY_KNOWS if own is None else own)


def _arrays(kinds: Collection[Kind]) -> dict[str, Any]:
    return {
        "queues": [kind.queue for kind in kinds],
        "types": [kind.task_type for kind in kinds],
        "priorities": [kind.priority for kind in kinds],
    }


class ServerClock:
    """The database's clock, read once and carried on by ours."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        with conn.cursor(row_factory=scalar_row) as cursor:
            found: float = cursor.execute(query("database_seconds")).fetchone() or 0.0
        self._ahead = found - now()

    def stratum(self) -> float:
        """The stratum of the rows that become ready now."""
        return (now() + self._ahead) // STRATUM_SECONDS


class Claiming:
    """What one session claims with, again and again.

    A cursor that is given the same statement each time remembers how values go there and back, which is
    a third of what a claim of one costs us.
    """

    def __init__(self, conn: psycopg.Connection[Any], priorities: Mapping[str, int]) -> None:
        self._alone, self._clearing = (
            (conn.cursor(row_factory=tuple_row), compose_claim(priorities, clearing=clearing))
            for clearing in (False, True)
        )

    def execute(self, values: dict[str, Any], done: Collection[Token]) -> list[tuple[Any, ...]]:
        """Send the claim with these values; its rows."""
        cursor, statement = self._clearing if done else self._alone
        if done:
            values["done"] = numbers(token.task_id for token in done)
            values["done_fences"] = numbers(token.fence for token in done)
        return cursor.execute(statement, values, prepare=True).fetchall()


def claim(
    claiming: Claiming,
    worker_id: UUID,
    places: Places,
    most: Mapping[str, int],
    *,
    wanted: Callable[[str], int] = lambda task_type: 1,
    done: Collection[Token] = (),
    fair: bool = False,
    full: bool = False,
    down_to: float = float("-inf"),
    bounds: Bounds = NO_BOUNDS,
) -> list[Row]:
    """Take tasks of one of the kinds in `places`, committed when this returns, in their order.

    `most` gives max_attempts by type for rows that have none yet; `wanted` says how many to take of a
    type; `done` are deleted on the way. `fair` leaves the CASE out; `full` looks below the low-water
    marks as well, down to a shuffle.
    """
    kinds = places.of
    values = {
        "worker_id": worker_id,
        "ats": numbers(place.at for place in kinds.values()),
        "marks": numbers(place.mark for place in kinds.values()),
        "wanted": numbers(wanted(kind.task_type) for kind in kinds),
        "most": numbers(most[kind.task_type] for kind in kinds),
        "fair": fair,
        "last_lap": 2 if full else 1,
        "down_to": down_to,
        "failed_before": bounds.failed_before,
        "created_before": bounds.created_before,
        "queues": texts(kind.queue for kind in kinds),
        "types": texts(kind.task_type for kind in kinds),
        "priorities": numbers(kind.priority for kind in kinds),
    }
    rows = claiming.execute(values, done)
    places.saw(_snapshot(*rows[0][:2]))
    if rows[0][3] is None:
        places.looked_at(rows[0][2] or ())
        return []
    return sorted((Row(*row[3:]) for row in rows), key=attrgetter("shuffle"))
