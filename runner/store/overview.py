"""What there is: counts, workers, pauses, and the server's room for connections."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import class_row, dict_row

from .sql import query

Record = dict[str, Any]


class ServerFacts(NamedTuple):
    """The server's connections."""

    max_connections: int
    reserved: int
    used: int

    @property
    def free(self) -> int:
        """How many more a fleet may open."""
        return max(0, self.max_connections - self.reserved - self.used)


def server_facts(conn: psycopg.Connection[Any]) -> ServerFacts:
    """The server's connections as they are now."""
    with conn.cursor(row_factory=class_row(ServerFacts)) as cursor:
        facts = cursor.execute(query("server_facts")).fetchone()
    assert facts is not None
    return facts


def counts(conn: psycopg.Connection[Any]) -> list[Record]:
    """Tasks by queue and type; rows with dates that Python cannot read are counted like others."""
    return _records(conn, "counts")


def pauses(conn: psycopg.Connection[Any]) -> list[Record]:
    """Queue, type (None: any) and until when, as text."""
    return _records(conn, "pauses")


def workers(conn: psycopg.Connection[Any]) -> list[Record]:
    """One record a worker, in the names of `workers --json`."""
    return _records(conn, "workers")


def served_queues(conn: psycopg.Connection[Any]) -> set[str] | None:
    """The queues that living workers claim from; None: every queue, by a worker that serves all."""
    found = {row[0] for row in conn.execute(query("served_queues"))}
    return None if None in found else found


def due(conn: psycopg.Connection[Any], queues: Sequence[str] | None) -> list[Record]:
    """Tasks that a drain would find, by queue and type."""
    return _records(conn, "due", {"queues": queues})


def is_completed(conn: psycopg.Connection[Any], key: str | None) -> bool:
    """Whether a task with this key was completed."""
    return conn.execute(query("receipt_of"), {"key": key}).fetchone() is not None


def _records(
    conn: psycopg.Connection[Any], name: str, values: dict[str, Any] | None = None
) -> list[Record]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query(name), values).fetchall()
