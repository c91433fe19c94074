"""A drain: run until nothing is runnable, then tell what is left."""

import random
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

import psycopg

from .clock import now
from .config import FleetConfig
from .errors import Busy, DatabaseUnreachable
from .fleet import compose, run
from .judge import Judge
from .store import drains, passes, schema
from .store.claim import Bounds
from .store.connect import connected
from .supervisor.course import Report
from .supervisor.goals import RunUntilDrained
from .terminal import Terminal
from .typenames import TypeNames
from .wire import Outcome


@dataclass(frozen=True)
class Drained:
    """What a drain did, in the names of its `--json`."""

    exit_code: int
    ok: int = 0
    retried: int = 0
    dead: int = 0
    unknown: int | None = 0  # None: there was no database to ask
    released: int = 0
    left: int | None = 0
    scheduled: int | None = 0
    seconds: float = 0.0
    reason: str = "empty"
    unknown_types: tuple[str, ...] = ()


def drain(
    config: FleetConfig,
    *,
    connect_wait_seconds: float = 5.0,
    overlap: str = "skip",
    fail_if_busy: bool = False,
    terminal: Terminal | None = None,
) -> Drained:
    """Run until nothing is runnable, with the live view on `terminal` if there is one; does not fork
    when nothing is runnable.

    Raises Busy when another drain of the same queues runs and `fail_if_busy` is set.
    """
    begun = now()
    runner_id, lock = uuid4(), uuid4()
    queues = sorted(queue.name for queue in config.queues) or None
    with connected(config.dsn, "drain", connect_wait_seconds) as conn:
        schema.check(conn)
        since = _first_pass(conn, config)
        runnable = drains.runnable(conn, queues, config.procs)
        idle = not runnable and not _is_worth_waiting(conn, config, queues)
        if overlap == "skip":
            # What is not runnable may be in the hands of another drain: that is told, not "empty".
            if idle:
                alone = drains.is_free(conn, queues)
            else:
                alone = drains.take_lock(conn, lock, runner_id, queues, config)
            if not alone:
                return _step_back(fail_if_busy, now() - begun)
        if idle:
            return _summary(drains.left(conn, queues, None), None, now() - begun)
    # No connection is open from here on: the parent forks.
    types = TypeNames()
    supervisor = compose(
        config,
        runner_id,
        _goal(config, runnable),
        bounds=_bounds(config, since),
        leased=[lock.bytes] if overlap == "skip" else [],
        types=types,
        terminal=terminal,
    )
    report = run(supervisor, terminal)
    left = None
    try:
        with connected(config.dsn, "drain", connect_wait_seconds) as conn:
            drains.release_lock(conn, lock)
            left = drains.left(conn, queues, types.read())
    except DatabaseUnreachable:
        if report.reason != "database":  # else it has been told why
            raise
    return _summary(left, report, now() - begun)


def _step_back(fail_if_busy: bool, seconds: float) -> Drained:
    if fail_if_busy:
        raise Busy("another drain of these queues runs")
    return Drained(0, seconds=round(seconds, 3), reason="overlap")


def _goal(config: FleetConfig, runnable: int) -> RunUntilDrained:
    """The end of the drain; with how many workers it begins goes by the tasks that are runnable now."""
    limits = config.drain
    assert limits is not None
    return RunUntilDrained(
        config.procs,
        max(1, runnable),
        limits.max_seconds,
        limits.max_tasks,
        limits.linger_seconds,
        wait_retries=limits.wait_retries_seconds is not None,
    )


def _bounds(config: FleetConfig, since: datetime) -> Bounds:
    """What the workers leave: tasks that failed in this drain, so that none fails twice, unless retries
    are waited for; and with --snapshot what was added after its start."""
    limits = config.drain
    assert limits is not None
    return Bounds(
        failed_before=since if limits.wait_retries_seconds is None else None,
        created_before=since if limits.snapshot else None,
    )


def _is_worth_waiting(
    conn: psycopg.Connection[Any], config: FleetConfig, queues: list[str] | None
) -> bool:
    """Whether to go on although nothing is runnable now: asked to linger, or a failed task is due
    again within the time that was given for retries."""
    limits = config.drain
    assert limits is not None
    if limits.linger_seconds > 0:
        return True
    wait = limits.wait_retries_seconds
    return wait is not None and passes.retry_within(conn, queues, wait)


def _first_pass(conn: psycopg.Connection[Any], config: FleetConfig) -> datetime:
    """In a deployment of drains alone nobody else promotes and sweeps; the drain's start, as the
    database's clock has it."""
    judge = Judge(config.backoff, random.Random())
    # Drains that cron starts in the same minute meet here; who passed over it would leave what is due.
    passes.sweep(conn, passes.long_ended(conn), judge, patient=True)
    while passes.promote(conn, patient=True):
        pass
    return drains.clock(conn)


def _summary(counts: drains.Left | None, report: Report | None, seconds: float) -> Drained:
    tally: Counter[Outcome] = report.tally if report else Counter()
    return Drained(
        report.exit_code if report else 0,
        ok=tally[Outcome.OK],
        retried=tally[Outcome.RETRIED] + tally[Outcome.SNOOZED],
        dead=tally[Outcome.DEAD],
        unknown=None if counts is None else counts.unknown,
        released=tally[Outcome.RELEASED],
        left=None if counts is None else counts.ready,
        scheduled=None if counts is None else counts.scheduled,
        seconds=round(seconds, 3),
        reason=report.reason if report else "empty",
        unknown_types=tuple(counts.unknown_types) if counts else (),
    )
