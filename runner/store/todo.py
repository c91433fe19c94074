"""What people must fix: types without a handler, what fails, what is dead."""

from collections.abc import Collection, Sequence

from psycopg.rows import class_row

from ..operating import interruptions
from ..operating.scaffold import Field
from .sql import column, query, records
from .tasks import Connection, Record, with_zones

TIMES = ("first_seen", "next_try", "last_failed_at")


def living_types(conn: Connection) -> set[str]:
    """The types that workers whose lease holds have handlers for."""
    return set(column(conn, "living_types"))


def unknown(conn: Connection, known: Collection[str]) -> list[Record]:
    """Types that wait and have no handler: type, count, first_seen, sample, task."""
    return _with_samples(conn, _rows(conn, "waiting_types", {"known": list(known)}))


def failing(conn: Connection, limit: int | None) -> list[Record]:
    """What failed and will be tried again, by type, cause and first line of the error; `interrupted`:
    how often, where attempts were cut off without charge."""
    values = {"limit": limit, "interruption": interruptions.pattern()}
    return _with_samples(conn, _rows(conn, "failing", values))


def dead(conn: Connection, limit: int | None) -> list[Record]:
    """What is dead, by type, cause and first line of the error."""
    return _with_samples(conn, _rows(conn, "dead", {"limit": limit}))


def fields(conn: Connection, task_type: str) -> list[Field]:
    """The fields of the params of tasks of a type; none where params are no objects."""
    with conn.cursor(row_factory=class_row(Field)) as cursor:
        return cursor.execute(query("fields_of"), {"type": task_type}).fetchall()


def _rows(conn: Connection, name: str, values: Record) -> list[Record]:
    return [with_zones(row, TIMES) for row in records(conn, name, values)]


def _with_samples(conn: Connection, rows: Sequence[Record]) -> list[Record]:
    ids = [row["task"] for row in rows]
    params = dict(conn.execute(query("params_of"), {"ids": ids}).fetchall())
    return [row | {"sample": params.get(row["task"])} for row in rows]
