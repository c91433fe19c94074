"""Adding one task through the SQL function that every language uses."""

from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import scalar_row

from .sql import query


class NewTask(NamedTuple):
    """The fields of a task to be added, judged already."""

    task_type: str
    params: str  # JSON text
    queue: str = "default"
    priority: int = 5
    run_at: datetime | None = None
    delay: float | None = None  # seconds from now, by the database's clock
    key: str | None = None
    unique: bool = False


def add(conn: psycopg.Connection[Any], task: NewTask) -> int | None:
    """The new id; None when a twin waits, or the key has a task or a receipt."""
    with conn.cursor(row_factory=scalar_row) as cursor:
        added: int | None = cursor.execute(query("add_task"), task._asdict()).fetchone()
        return added


def is_completed(conn: psycopg.Connection[Any], key: str | None) -> bool:
    """Whether a task with this key was completed."""
    return conn.execute(query("receipt_of"), {"key": key}).fetchone() is not None
