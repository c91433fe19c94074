"""One look at everything, as `status` and the console show it."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import psycopg

from ..operating.board import overview as board
from ..operating.rates import rates
from . import overview, tallies, todo
from .sql import records

Record = dict[str, Any]
Here = Callable[[], Collection[str] | None]


def look(
    conn: psycopg.Connection[Any],
    counts: Sequence[Record] | None = None,
    here: Here = lambda: None,
) -> Record:
    """The object of `status --json`; the counts are of one moment, the rest of moments close by.

    `counts`: of a look before, because counting reads every task. `here`: the types of the app that
    loads here, if one does; asked only where something waits that no living worker has a handler for.
    """
    counts = overview.counts(conn) if counts is None else counts
    workers = overview.workers(conn)
    return board(
        conn.info.dbname,
        counts,
        overview.pauses(conn),
        workers,
        _known(conn, counts, workers, here),
        overview.served_queues(conn),
        rates(tallies.recent(conn), tallies.counted_seconds(conn)),
    )


def _known(
    conn: psycopg.Connection[Any], counts: Sequence[Record], workers: Sequence[Record], here: Here
) -> Collection[str] | None:
    living = todo.living_types(conn)
    if all(one["type"] in living for one in counts if one["ready"]):
        return living
    also = here()
    if also is None and all(one["state"] == "expired" for one in workers):
        return None
    return living.union(also or ())


def last_dead(conn: psycopg.Connection[Any], limit: int) -> list[Record]:
    """The tasks that died last: id, type, queue, attempt, cause, last_error, dead_seconds."""
    return records(conn, "last_dead", {"limit": limit})


def failing(conn: psycopg.Connection[Any], limit: int) -> list[Record]:
    """What failed and will be tried again: type, count, cause, error, next_try_seconds."""
    return records(conn, "failing_now", {"limit": limit})
