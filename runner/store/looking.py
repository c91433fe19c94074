"""One look at everything, as `status` and the console show it."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import dict_row

from ..operating.board import overview as board
from ..operating.rates import rates
from . import overview, passes, tallies
from .sql import query

Record = dict[str, Any]


def look(conn: psycopg.Connection[Any], counts: Sequence[Record] | None = None) -> Record:
    """The object of `status --json`; the counts are of one moment, the rest of moments close by.

    `counts`: of a look before, because counting reads every task.
    """
    return board(
        conn.info.dbname,
        overview.counts(conn) if counts is None else counts,
        overview.pauses(conn),
        overview.workers(conn),
        passes.known_types(conn),
        overview.served_queues(conn),
        rates(tallies.recent(conn), tallies.counted_seconds(conn)),
    )


def last_dead(conn: psycopg.Connection[Any], limit: int) -> list[Record]:
    """The tasks that died last: id, type, queue, attempt, cause, last_error, dead_seconds."""
    return _records(conn, "last_dead", limit)


def failing(conn: psycopg.Connection[Any], limit: int) -> list[Record]:
    """What failed and will be tried again: type, count, cause, error, next_try_seconds."""
    return _records(conn, "failing_now", limit)


def _records(conn: psycopg.Connection[Any], name: str, limit: int) -> list[Record]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query(name), {"limit": limit}).fetchall()
