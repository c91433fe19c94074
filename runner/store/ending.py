"""Ending claims: by completion, by a verdict, and for workers that are gone."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import namedtuple_row, tuple_row

from ..errors import LeaseLost
from ..judge import Claim, Verdict
from ..wire import Token
from .arrays import numbers
from .sql import query, whole


class Ended(NamedTuple):
    """A claim that was ended for its worker."""

    task_id: int
    task_type: str
    verdict: Verdict


def complete(
    conn: psycopg.Connection[Any], worker_id: UUID, task_id: int, fence: int
) -> str | None:
    """Delete a task that is ours; the claim marker of the transaction.

    LeaseLost when it is not ours any more: roll back everything.
    """
    values = {"task_id": task_id, "worker_id": worker_id, "fence": fence}
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(query("complete"), values, prepare=True).fetchone()
    if row is None:
        raise LeaseLost(f"task {task_id} is no longer ours")
    marker: str | None = row[0]
    return marker


def delete_done(conn: psycopg.Connection[Any], worker_id: UUID, done: Collection[Token]) -> int:
    """Delete tasks whose handlers are through and sent nothing; how many were still ours."""
    return conn.execute(_several("delete_done"), _pairs(worker_id, done)).rowcount


def complete_group(
    conn: psycopg.Connection[Any], worker_id: UUID, done: Collection[Token]
) -> str | None:
    """Delete all of these in the open transaction; its claim marker. LeaseLost if one is not ours."""
    with conn.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(_several("complete_group"), _pairs(worker_id, done)).fetchall()
    if len(rows) != len(done):
        raise LeaseLost(f"{len(done) - len(rows)} tasks of the group are no longer ours")
    marker: str | None = rows[0][0]
    return marker


def hand_back(conn: psycopg.Connection[Any], worker_id: UUID, tokens: Collection[Token]) -> int:
    """Make claimed tasks that have not begun ready again, and wake the idle; how many."""
    count = conn.execute(_several("hand_back"), _pairs(worker_id, tokens)).rowcount
    if count:
        conn.execute(query("notify"))
    return count


def _several(name: str) -> sql.SQL:
    """A statement that ends several claims at once."""
    return whole(name, "these_claims")


def _pairs(worker_id: UUID, tokens: Collection[Token]) -> dict[str, Any]:
    return {
        "worker_id": worker_id,
        "done": numbers(token.task_id for token in tokens),
        "done_fences": numbers(token.fence for token in tokens),
    }


def leave_receipt(conn: psycopg.Connection[Any], key: str, task_id: int, task_type: str) -> bool:
    """Remember a key in the completing transaction; False when it was completed before."""
    values = {"key": key, "task_id": task_id, "task_type": task_type}
    return conn.execute(query("leave_receipt"), values).fetchone() is not None


def end_claim(
    conn: psycopg.Connection[Any], worker_id: UUID, task_id: int, fence: int, verdict: Verdict
) -> None:
    """Write a verdict; LeaseLost when the claim is not ours any more."""
    values = {
        "task_id": task_id,
        "worker_id": worker_id,
        "fence": fence,
        "state": verdict.state,
        "attempt": verdict.attempt,
        "released": verdict.released,
        "solo": verdict.solo,
        "delay": verdict.delay_seconds,
        "cause": verdict.cause,
        "error": verdict.error,
        "failed": verdict.failed,
        "post_mortem": verdict.post_mortem,
    }
    with conn.cursor(row_factory=tuple_row) as cursor:
        if cursor.execute(query("end_claim"), values).rowcount != 1:
            raise LeaseLost(f"task {task_id} is no longer ours")


def settle(
    conn: psycopg.Connection[Any],
    worker_id: UUID,
    judge: Callable[[Claim], Verdict],
    *,
    seen_until: datetime | None = None,
    done: Collection[Token] = (),
) -> list[Ended] | None:
    """Take a gone worker's lease and end its claims: those in `done` by deletion, the others as
    `judge` says; None when somebody else did.

    Two statements in one READ COMMITTED transaction, never one: the first waits for a claim in flight,
    and only a snapshot taken after it sees what that claimed. With `seen_until` the lease must still
    end then. The caller ends the worker's backend first (`terminate_backend`).
    """
    with conn.transaction():
        values = {"worker_id": worker_id, "seen_until": seen_until}
        if conn.execute(query("delete_worker"), values).fetchone() is None:
            return None
        if done:
            delete_done(conn, worker_id, done)
        with conn.cursor(row_factory=namedtuple_row) as cursor:
            rows = cursor.execute(query("claims_of"), {"worker_id": worker_id}).fetchall()
        return [_end_for(conn, worker_id, row, judge) for row in rows]


def return_orphans(conn: psycopg.Connection[Any], judge: Callable[[Claim], Verdict]) -> list[Ended]:
    """End running rows that no worker row stands behind; call it inside a transaction."""
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        rows: Sequence[Any] = cursor.execute(query("orphans")).fetchall()
    ended = []
    for row in rows:
        try:
            ended.append(_end_for(conn, row.lease_owner, row, judge))
        except LeaseLost:
            continue  # somebody else returned it meanwhile, and it may even be running again
    return ended


def _end_for(
    conn: psycopg.Connection[Any], worker_id: UUID, row: Any, judge: Callable[[Claim], Verdict]
) -> Ended:
    verdict = judge(
        Claim(row.task_id, row.fence, row.attempt, row.max_attempts, row.released, row.solo)
    )
    end_claim(conn, worker_id, row.task_id, row.fence, verdict)
    return Ended(row.task_id, row.task_type, verdict)


def terminate_backend(conn: psycopg.Connection[Any], worker_id: UUID) -> None:
    """End the session a gone worker left in the server, where we may; its locks go with it."""
    try:
        with conn.transaction():  # a sweep's own goes on behind it
            conn.execute(query("terminate_backend"), {"worker_id": worker_id})
    except psycopg.errors.InsufficientPrivilege:
        pass  # the lock timeout bounds what this costs


def was_removed(conn: psycopg.Connection[Any], task_id: int) -> bool:
    """Whether a person cancelled or discarded this task."""
    return conn.execute(query("removed"), {"task_id": task_id}).fetchone() is not None
