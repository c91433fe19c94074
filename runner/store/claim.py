"""Claiming: which kinds to look at, from where, and the one statement that takes tasks."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.adapt import Transformer
from psycopg.rows import tuple_row

from ..judge import Claim
from ..places import Kind, Places
from ..task import Report, Task, no_progress
from ..wire import Token
from .arrays import numbers, texts
from .kinds import snapshot
from .sending import CLAIM, CLEARING_CLAIM, Sending
from .sql import numbered, query, whole


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a drain leaves, on the database's clock: tasks that failed since it began, and in a
    snapshot those that came later."""

    failed_before: datetime | None = None
    created_before: datetime | None = None


NO_BOUNDS = Bounds()
NO_PRIORITIES: Mapping[str, int] = MappingProxyType({})
Values = dict[str, bytes | None]  # of the parameters, as PostgreSQL reads them
_Found = tuple[list[tuple[Any, ...]], list["Row"]]
# The server's JSON has no blanks around it, which `loads` would look for.
_JSON = json.JSONDecoder()


class UnreadableParams(ValueError):
    """Params that PostgreSQL took and Python does not read: they stand in their own place until the
    handler is to be called."""


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

    def _read_params(self) -> Any:
        try:
            return _JSON.raw_decode(self.params)[0]
        except (ValueError, RecursionError) as error:
            return UnreadableParams(str(error))

    def task(self, limit_at: float | None, report_progress: Report = no_progress) -> Task:
        """What its handler is given."""
        return Task(
            self.task_id,
            self.task_type,
            self._read_params(),
            self.queue,
            self.attempt,
            self.max_attempts,
            self.idempotency_key,
            self.fence,
            self.created_at,
            limit_at,
            report_progress,
        )


def compose_claim(
    priorities: Mapping[str, int],
    conn: psycopg.Connection[Any] | None = None,
    *,
    clearing: bool = True,
) -> bytes:
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
        gone = query("gone").format(delete_done=whole("delete_done", "these_claims"))
    return query("claim").format(rank=rank, gone=gone).as_bytes(conn)


def _literal(text: str) -> sql.SQL:
    # The statement has parameters, so a % of the text must not look like one.
    return sql.SQL(sql.Literal(text).as_string().replace("%", "%%"))


def _nothing() -> None:
    pass


class Claiming:
    """What one worker claims with in one session, again and again."""

    def __init__(
        self,
        conn: psycopg.Connection[Any],
        worker_id: UUID,
        most: Mapping[str, int],
        priorities: Mapping[str, int] = NO_PRIORITIES,
        bounds: Bounds = NO_BOUNDS,
    ) -> None:
        """`most` gives max_attempts by type, for rows that have none yet."""
        self._conn = conn
        self._most = most
        # A cursor that is given the same statement each time remembers how values come back.
        self._alone, self._clearing = (
            _Statement(
                name,
                compose_claim(priorities, conn, clearing=clearing),
                conn.cursor(row_factory=tuple_row),
            )
            for name, clearing in ((CLAIM, False), (CLEARING_CLAIM, True))
        )
        self._always = {
            "worker_id": str(worker_id),
            "failed_before": _instant(bounds.failed_before),
            "created_before": _instant(bounds.created_before),
        }

    def compose(
        self,
        places: Places,
        *,
        wanted: Callable[[str], int] = lambda task_type: 1,
        fair: bool = False,
        full: bool = False,
        to_the_end: bool = True,
    ) -> Values:
        """What the claim is sent with, to take tasks of one of the kinds in `places`.

        `wanted` says how many to take of a type; `fair` leaves the CASE out; `full` looks below the
        low-water marks as well, to where late rows may lie or to the end.
        """
        kinds = places.of
        values = self._always | {
            "ats": numbers(place.at for place in kinds.values()),
            "marks": numbers(place.mark for place in kinds.values()),
            "laps": numbers(places.lap_from(kind, to_the_end) for kind in kinds),
            "wanted": numbers(wanted(kind.task_type) for kind in kinds),
            "most": numbers(self._most[kind.task_type] for kind in kinds),
            "fair": "t" if fair else "f",
            "last_lap": "2" if full else "1",
            "queues": texts(kind.queue for kind in kinds),
            "types": texts(kind.task_type for kind in kinds),
            "priorities": numbers(kind.priority for kind in kinds),
        }
        encoding = self._conn.info.encoding
        return {
            name: None if value is None else value.encode(encoding)
            for name, value in values.items()
        }

    def claim(
        self,
        values: Values,
        places: Places,
        *,
        done: Collection[Token] = (),
        sent: Callable[[], None] = _nothing,
    ) -> list[Row]:
        """Take tasks, committed when this returns, in their order. `done` are deleted on the way;
        `sent` is called when the statement is sent."""
        statement = self._alone
        if done:
            statement = self._clearing
            values["done"] = numbers(token.task_id for token in done).encode()
            values["done_fences"] = numbers(token.fence for token in done).encode()
        if isinstance(self._conn, Sending) and self._conn.ours:
            rows, claimed = statement.ask(self._conn, values, sent)
        else:
            rows, claimed = statement.execute(values, sent)
        places.saw(snapshot(*rows[0][:2]))
        if not claimed:
            places.looked_at(rows[0][2] or ())
        return claimed


class _Statement:
    """A claim statement, sent by libpq's own means where the session is ours."""

    def __init__(self, name: bytes, text: bytes, cursor: psycopg.Cursor[tuple[Any, ...]]) -> None:
        self._name, self._text, self._cursor = name, text, cursor
        self._numbered, self._names = numbered(text)
        self._loading = Transformer(cursor)

    def ask(self, conn: Sending, values: Values, sent: Callable[[], None]) -> _Found:
        return conn.ask(
            self._name,
            self._numbered,
            [values[name] for name in self._names],
            sent=sent,
            read=self._read,
        )

    def execute(self, values: Values, sent: Callable[[], None]) -> _Found:
        encoding = self._cursor.connection.info.encoding
        given = {name: value and value.decode(encoding) for name, value in values.items()}
        sent()
        return _found(self._cursor.execute(self._text, given, prepare=True).fetchall())

    def _read(self, result: psycopg.pq.abc.PGresult) -> _Found:
        self._loading.set_pgresult(result)
        return _found(self._loading.load_rows(0, result.ntuples, tuple))


def _found(rows: list[tuple[Any, ...]]) -> _Found:
    if rows[0][3] is None:
        return rows, []
    return rows, sorted((Row(*row[3:]) for row in rows), key=attrgetter("shuffle"))


def _instant(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
