"""What a drain asks before it forks and after its last child is gone."""

import os
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row

from ..config import FleetConfig
from .sql import query, value


@dataclass
class Left:
    """What is there at the end of a drain."""

    ready: int = 0
    scheduled: int = 0
    unknown: int = 0
    unknown_types: list[str] = field(default_factory=list)


def clock(conn: psycopg.Connection[Any]) -> datetime:
    """The database's clock."""
    found = value(conn, "clock")
    assert isinstance(found, datetime)
    return found


def runnable(conn: psycopg.Connection[Any], queues: Sequence[str] | None, bound: int) -> int:
    """How many ready, unpaused tasks there are, known type or not, counted up to a bound."""
    values = {"queues": queues, "types": None, "bound": bound}
    return int(value(conn, "runnable", values) or 0)


def take_lock(
    conn: psycopg.Connection[Any],
    lock: UUID,
    runner_id: UUID,
    queues: Sequence[str] | None,
    config: FleetConfig,
) -> bool:
    """Become the one drain of this set of queues for one lease; False when there is another."""
    values = {
        "worker_id": lock,
        "runner_id": runner_id,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "queues": queues,
        "lease": config.lease_seconds,
    }
    return conn.execute(query("take_drain_lock"), values).fetchone() is not None


def is_free(conn: psycopg.Connection[Any], queues: Sequence[str] | None) -> bool:
    """Whether no drain of this set of queues runs; takes nothing."""
    return not value(conn, "drain_lock_is_taken", {"queues": queues})


def release_lock(conn: psycopg.Connection[Any], lock: UUID) -> None:
    """Let the next drain in."""
    conn.execute(query("release_drain_lock"), {"worker_id": lock})


def left(
    conn: psycopg.Connection[Any], queues: Sequence[str] | None, known: Collection[str] | None
) -> Left:
    """Tasks still waiting in these queues; those of types outside `known`, where that is given, are
    told apart."""
    found = Left()
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        rows: Sequence[Any] = cursor.execute(query("left"), {"queues": queues}).fetchall()
    for row in rows:
        if row.state == "scheduled":
            found.scheduled += row.count
        elif known is None or row.task_type in known or row.state == "running":
            found.ready += row.count
        else:
            found.unknown += row.count
            found.unknown_types.append(row.task_type)
    return found
