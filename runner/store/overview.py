"""What there is: counts, workers, pauses."""

from collections.abc import Sequence
from typing import Any

import psycopg

from .sql import query, records

Record = dict[str, Any]


def counts(conn: psycopg.Connection[Any]) -> list[Record]:
    """Tasks by queue and type; rows with dates that Python cannot read are counted like others."""
    return records(conn, "counts")


def pauses(conn: psycopg.Connection[Any]) -> list[Record]:
    """Queue, type (None: any) and until when, as text."""
    return records(conn, "pauses")


def workers(conn: psycopg.Connection[Any]) -> list[Record]:
    """One record a worker, in the names of `workers --json`."""
    return records(conn, "workers")


def served_queues(conn: psycopg.Connection[Any]) -> set[str] | None:
    """The queues that living workers claim from; None: every queue, by a worker that serves all."""
    found = {row[0] for row in conn.execute(query("served_queues"))}
    return None if None in found else found


def due(conn: psycopg.Connection[Any], queues: Sequence[str] | None) -> list[Record]:
    """Tasks that a drain would find, by queue and type."""
    return records(conn, "due", {"queues": queues})


def is_completed(conn: psycopg.Connection[Any], key: str | None) -> bool:
    """Whether a task with this key was completed."""
    return conn.execute(query("receipt_of"), {"key": key}).fetchone() is not None
