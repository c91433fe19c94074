"""What `runner demo` asks of the database."""

import socket
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import dict_row, scalar_row

from ..errors import Busy
from .sql import query

BATCH = 5000


def prepare(conn: psycopg.Connection[Any], params: Sequence[str]) -> None:
    """Clean tables and one task for each of these params; Busy while another demo runs.

    The lock is the session's: keep the connection open until the end.
    """
    with conn.cursor(row_factory=scalar_row) as cursor:
        if not cursor.execute(query("demo_lock")).fetchone():
            raise Busy("another demo is running")
    with conn.transaction():
        conn.execute(query("demo_prepare"))
        for start in range(0, len(params), BATCH):
            conn.execute(query("demo_add"), {"params": list(params[start : start + BATCH])})
        conn.execute(query("demo_begin"), {"files": len(params)})


def write(
    conn: psycopg.Connection[Any],
    path: str,
    counts: tuple[int, int, str] | None,
    pid: int,
) -> None:
    """The row of one file: bytes, lines and SHA-256, none where it could not be read any more."""
    size, lines, digest = counts or (None, None, None)
    values = {"path": path, "bytes": size, "lines": lines, "sha256": digest, "pid": pid}
    conn.execute(query("demo_write"), values)


def done(conn: psycopg.Connection[Any]) -> int:
    """How many files are done."""
    with conn.cursor(row_factory=scalar_row) as cursor:
        return int(cursor.execute(query("demo_done")).fetchone() or 0)


def waiting(conn: psycopg.Connection[Any]) -> tuple[int, float]:
    """Tasks left, and seconds until the next is due."""
    tasks, due = conn.execute(query("demo_waiting")).fetchone() or (0, None)
    return tasks, due or 0.0


def busy_workers(conn: psycopg.Connection[Any], parent: int) -> list[int]:
    """Process ids of workers of this parent that hold a task."""
    values = {"parent": parent, "host": socket.gethostname()}
    with conn.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(query("demo_workers"), values).fetchall()


def summary(conn: psycopg.Connection[Any]) -> dict[str, Any]:
    """Files, rows, lost, doubled, processes, seconds, tasks per second."""
    with conn.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(query("demo_summary")).fetchone()
    assert found is not None
    return found
