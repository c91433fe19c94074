"""Maintenance: what the maintainer and a drain's first look do for every task, whoever claims it."""

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row, scalar_row

from ..config import FleetConfig
from ..judge import Claim, Judge, Verdict
from ..observing import Lease
from ..places import Kind
from ..wire import How
from . import ending
from .sql import column, query, value

SWEPT = "lease expired"


def next_due(conn: psycopg.Connection[Any]) -> float | None:
    """Seconds until the next scheduled task is due, negative when it is; None when there is none."""
    with conn.cursor(row_factory=scalar_row) as cursor:
        found: float | None = cursor.execute(query("next_due")).fetchone()
        return found


def without_paused(conn: psycopg.Connection[Any], kinds: Sequence[Kind]) -> list[Kind]:
    """Those of the kinds that may be claimed now."""
    paused = conn.execute(query("paused")).fetchall()
    return [
        kind
        for kind in kinds
        if not any(
            queue in (None, kind.queue) and task_type in (None, kind.task_type)
            for queue, task_type in paused
        )
    ]


def promote(
    conn: psycopg.Connection[Any], failed_before: datetime | None = None, *, patient: bool = False
) -> int:
    """Make due tasks ready, at most 1,000 at once; how many. A drain leaves what failed in it. While
    somebody else makes a pass none, unless `patient`."""
    with conn.transaction():
        if not _lock(conn, patient):
            return 0
        count = conn.execute(query("promote"), {"failed_before": failed_before}).rowcount
        if count:
            conn.execute(query("notify"))
        return count


def _lock(conn: psycopg.Connection[Any], patient: bool) -> bool:
    if not patient:
        return bool(value(conn, "try_pass_lock"))
    try:
        with conn.transaction():
            conn.execute(query("wait_pass_lock"))
    except psycopg.errors.LockNotAvailable:
        return False  # as long as our sessions wait for anything
    return True


def leases(conn: psycopg.Connection[Any]) -> list[Lease[UUID]]:
    """Every lease there is."""
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        rows: Sequence[Any] = cursor.execute(query("leases")).fetchall()
    return [
        Lease(r.worker_id, r.lease_until, r.ended, -r.ended_seconds_ago, r.lease_seconds)
        for r in rows
    ]


def long_ended(conn: psycopg.Connection[Any]) -> list[Lease[UUID]]:
    """Leases that ended more than their own length ago: nobody need have watched those."""
    return [one for one in leases(conn) if one.ends_in_seconds < -one.length_seconds]


def orphans_wait(conn: psycopg.Connection[Any]) -> bool:
    """Whether a running task has no worker's row behind it."""
    return conn.execute(query("orphans")).fetchone() is not None


def sweep(
    conn: psycopg.Connection[Any],
    ripe: Sequence[Lease[UUID]],
    judge: Judge,
    *,
    orphans: bool = True,
    patient: bool = False,
) -> list[ending.Ended]:
    """Take these leases, if they still end when they did, and return `orphans`, which nobody holds;
    `patient` as for `promote`."""
    ended: list[ending.Ended] = []
    with conn.transaction():
        if not _lock(conn, patient):
            return []
        for lease in ripe:
            ended += _take(conn, lease, judge)
        if orphans:
            ended += ending.return_orphans(conn, lambda claim: judge.released(claim, started=False))
        if ended:
            conn.execute(query("notify"))
    return ended


def _take(conn: psycopg.Connection[Any], lease: Lease[UUID], judge: Judge) -> list[ending.Ended]:
    def swept(claim: Claim) -> Verdict:
        return judge.settled(claim, How.SWEPT, SWEPT)

    ending.terminate_backend(conn, lease.id)
    try:
        return ending.settle(conn, lease.id, swept, seen_until=lease.until) or []  # type: ignore[arg-type]
    except psycopg.errors.LockNotAvailable:
        return []  # a session that we may not end holds a row: the next sweep tries again


def listen(conn: psycopg.Connection[Any]) -> None:
    """Hear of tasks that were added."""
    conn.execute(query("listen"))


def register_runner(
    conn: psycopg.Connection[Any], runner_id: UUID, config: FleetConfig, host: str
) -> None:
    """Announce a parent, or make sure that it still is."""

    values = {
        "runner_id": runner_id,
        "host": host,
        "pid": os.getppid(),
        "procs": config.procs,
        "lease": config.lease_seconds,
    }
    conn.execute(query("register_runner"), values)


def set_idle(conn: psycopg.Connection[Any], runner_id: UUID, idle: bool) -> None:
    """Tell enqueuers whether a NOTIFY is of use."""
    conn.execute(query("set_idle"), {"runner_id": runner_id, "idle": idle})


def remove_runner(conn: psycopg.Connection[Any], runner_id: UUID) -> None:
    """A parent leaves."""
    conn.execute(query("remove_runner"), {"runner_id": runner_id})


def prune(
    conn: psycopg.Connection[Any], runner_id: UUID, keep_seconds: float = 90 * 86400.0
) -> None:
    """Forget runners that are gone, receipts older than `keep_seconds` (infinite: none), and pauses
    that are over."""
    conn.execute(query("prune_runners"), {"runner_id": runner_id})
    if keep_seconds < float("inf"):
        conn.execute(query("prune_receipts"), {"keep": keep_seconds})
    conn.execute(query("prune_pauses"))


def retry_within(
    conn: psycopg.Connection[Any], queues: Sequence[str] | None, seconds: float
) -> bool:
    """Whether a task that failed is due again within this time."""
    values = {"queues": queues, "seconds": seconds}
    return conn.execute(query("retry_within"), values).fetchone() is not None


def known_types(conn: psycopg.Connection[Any]) -> set[str]:
    """The types that workers anywhere have handlers for, those included whose lease has ended: an outage
    makes no type unknown."""
    return set(column(conn, "known_types"))


def types_of(conn: psycopg.Connection[Any], runner_id: UUID) -> set[str]:
    """The types that the workers of one parent have handlers for."""
    return set(column(conn, "types_of", {"runner_id": runner_id}))
