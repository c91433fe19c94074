"""Worker and runner rows: registering, renewing, and seeing what they have lost."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row

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
        return set(cursor.execute(query(name), values))


def taken(conn: psycopg.Connection[Any], renewals: Sequence[Renewal]) -> list[Renewal]:
    """Those whose claim is no longer their worker's."""
    if not renewals:
        return []
    values = {
        "workers": [UUID(bytes=one.worker) for one in renewals],
        "tasks": [one.task for one in renewals],
        "fences": [one.fence for one in renewals],
    }
    with conn.cursor(row_factory=scalar_row) as cursor:
        cursor.execute(query("taken"), values)
        return [renewals[nth - 1] for nth in cursor]
