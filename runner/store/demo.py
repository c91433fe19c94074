"""What `runner demo` asks of the database."""

import socket
from collections.abc import Sequence
from typing import Any

import psycopg

from ..errors import Busy
from .sql import column, query, records, value

BATCH = 5000


def prepare(conn: psycopg.Connection[Any], params: Sequence[str]) -> None:
    """Clean tables and one task for each of these params; Busy while another demo runs.

    The lock is the session's: keep the connection open until the end.
    """
    if not value(conn, "demo_lock"):
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
    return int(value(conn, "demo_done") or 0)


def waiting(conn: psycopg.Connection[Any]) -> tuple[int, float]:
    """Tasks left, and seconds until the next is due."""
    tasks, due = conn.execute(query("demo_waiting")).fetchone() or (0, None)
    return tasks, due or 0.0


def busy_workers(conn: psycopg.Connection[Any], parent: int) -> list[int]:
    """Process ids of workers of this parent that hold a task."""
    return column(conn, "demo_workers", {"parent": parent, "host": socket.gethostname()})


def summary(conn: psycopg.Connection[Any]) -> dict[str, Any]:
    """Files, rows, lost, doubled, processes, seconds, tasks per second."""
    return records(conn, "demo_summary")[0]
