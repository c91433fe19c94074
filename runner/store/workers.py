"""Worker and runner rows: registering, renewing, and seeing what they hold."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from ..wire import Renewal
from .bounded import is_pooled
from .sql import query


class Identity(NamedTuple):
    """What a worker's row says of it."""

    worker_id: UUID
    runner_id: UUID
    host: str
    pid: int
    slot: int
    types: list[str]
    queues: list[str] | None
    lease: float  # seconds


class Held(NamedTuple):
    """A running task and who holds it."""

    lease_owner: UUID
    task_id: int
    fence: int


def register_worker(
    conn: psycopg.Connection[Any], identity: Identity, role: str = "worker"
) -> bool:
    """Write the row with a fresh lease; False when one stands in its way (a drain's lock)."""
    values = identity._asdict() | {"role": role, "direct": not is_pooled(conn)}
    return conn.execute(query("register_worker"), values).fetchone() is not None


def renew(conn: psycopg.Connection[Any], renewals: Sequence[Renewal]) -> set[UUID]:
    """Extend these leases; the ids renewed. A row that is locked just now is not among them."""
    values = {
        "workers": [UUID(bytes=one.worker) for one in renewals],
        "done": [one.done for one in renewals],
        "failed": [one.failed for one in renewals],
        "rss": [one.rss for one in renewals],
    }
    return _ids(conn, "renew", values)


def existing(conn: psycopg.Connection[Any], workers: Sequence[UUID]) -> set[UUID]:
    """Which of these workers still have a row."""
    return _ids(conn, "existing_workers", {"workers": list(workers)})


def _ids(conn: psycopg.Connection[Any], name: str, values: dict[str, Any]) -> set[UUID]:
    with conn.cursor(row_factory=scalar_row) as cursor:
        return set(cursor.execute(query(name), values, prepare=True))


def held(conn: psycopg.Connection[Any], workers: Sequence[UUID]) -> list[Held]:
    """Every running task of these workers."""
    with conn.cursor(row_factory=class_row(Held)) as cursor:
        return cursor.execute(query("held"), {"workers": list(workers)}, prepare=True).fetchall()
