"""The composition root: a config becomes roles, pipes and a supervisor.

Everything that the children will share is imported here, before the first fork; no connection is open
while there are children.
"""

import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg

from .clock import now
from .config import FleetConfig
from .errors import Busy
from .judge import Judge
from .roles.log import Log
from .roles.maintainer import Group, Maintainer
from .roles.renewer import Renewer
from .roles.worker import Worker
from .store import drains, passes, schema
from .store.connect import connected
from .supervisor.course import Report
from .supervisor.goals import Goal, RunForever, RunUntilDrained
from .supervisor.permits import Permits
from .supervisor.renewals import Renewals
from .supervisor.role import Ends, Role, Seat
from .supervisor.spawn import set_pipe_size
from .supervisor.supervisor import Supervisor
from .wire import Outcome

HELPERS = 5  # connections of a fleet beside one for each worker


def start(config: FleetConfig, *, connect_wait_seconds: float = 60.0) -> Report:
    """Run a fleet until it is stopped."""
    with connected(config.dsn, "start", connect_wait_seconds) as conn:
        schema.check(conn)
    return compose(config, uuid4(), RunForever(config.procs)).run()


@dataclass(frozen=True)
class Drained:
    """What a drain did, in the names of its `--json`."""

    exit_code: int
    ok: int = 0
    retried: int = 0
    dead: int = 0
    unknown: int = 0
    released: int = 0
    left: int = 0
    scheduled: int = 0
    seconds: float = 0.0
    reason: str = "empty"
    unknown_types: tuple[str, ...] = ()


def drain(
    config: FleetConfig,
    *,
    connect_wait_seconds: float = 5.0,
    overlap: str = "skip",
    fail_if_busy: bool = False,
) -> Drained:
    """Run until nothing is runnable; does not fork when nothing is.

    Raises Busy when another drain of the same queues runs and `fail_if_busy` is set.
    """
    begun = now()
    runner_id = uuid4()
    queues = sorted(queue.name for queue in config.queues) or None
    with connected(config.dsn, "drain", connect_wait_seconds) as conn:
        schema.check(conn)
        since = _first_pass(conn, config)
        runnable = drains.runnable(conn, queues, config.procs)
        if not runnable:
            return _summary(drains.left(conn, queues, None), None, now() - begun)
        lock = uuid4()
        if overlap == "skip" and not drains.take_lock(conn, lock, runner_id, queues, config):
            if fail_if_busy:
                raise Busy("another drain of these queues runs")
            return Drained(0, seconds=now() - begun, reason="overlap")
    limits = config.drain
    assert limits is not None
    goal = RunUntilDrained(
        config.procs,
        runnable,
        limits.max_seconds,
        limits.max_tasks,
        limits.linger_seconds,
    )
    leased = [lock.bytes] if overlap == "skip" else []
    with tempfile.TemporaryFile() as types:
        fleet = compose(config, runner_id, goal, since=since, leased=leased, types=types.fileno())
        report = fleet.run()
        known = json.loads(types.read() or b"null")
    with connected(config.dsn, "drain", connect_wait_seconds) as conn:
        drains.release_lock(conn, lock)
        return _summary(drains.left(conn, queues, known), report, now() - begun)


def _first_pass(conn: psycopg.Connection[Any], config: FleetConfig) -> datetime:
    """In a deployment of drains alone nobody else promotes and sweeps; the drain's start, as the
    database's clock has it."""
    judge = Judge(config.backoff, random.Random())
    passes.sweep(conn, passes.long_ended(conn), judge)
    while passes.promote(conn):
        pass
    return drains.clock(conn)


def _summary(counts: drains.Left, report: Report | None, seconds: float) -> Drained:
    tally: Counter[Outcome] = report.tally if report else Counter()
    return Drained(
        report.exit_code if report else 0,
        ok=tally[Outcome.OK],
        retried=tally[Outcome.RETRIED] + tally[Outcome.SNOOZED],
        dead=tally[Outcome.DEAD],
        unknown=counts.unknown,
        released=tally[Outcome.RELEASED],
        left=counts.ready,
        scheduled=counts.scheduled,
        seconds=round(seconds, 3),
        reason=report.reason if report else "empty",
        unknown_types=tuple(counts.unknown_types),
    )


def compose(
    config: FleetConfig,
    runner_id: UUID,
    goal: Goal,
    *,
    since: datetime | None = None,
    leased: Sequence[bytes] = (),
    types: int | None = None,
) -> Supervisor:
    """The fleet of a config: its pipes, its roles, its parent.

    `since`: a drain's start. `leased`: further rows to renew. `types`: a file that workers write the
    names of their handlers to, because the parent never loads the app.
    """
    events, log = os.pipe(), os.pipe()
    os.set_blocking(log[1], False)
    set_pipe_size(log[1], 1 << 20)
    renewals = Renewals(config.renew_every)
    sets = _sets_of_queues(config)
    wakes = [os.pipe() for _ in sets]
    for fd in (fd for pipe in wakes for fd in pipe):
        os.set_blocking(fd, False)
    permits = None
    if config.drain is not None and config.drain.max_tasks is not None:
        permits = Permits(config.drain.max_tasks)

    def worker(seat: Seat, ends: Ends) -> int:
        return Worker(config, runner_id, seat, ends, since).run()

    def worker_ends(slot: int) -> dict[str, int]:
        wake_read, wake_write = wakes[sets.index(config.queues_of_slot(slot))]
        extra = {"wake": wake_read, "wake_next": wake_write}
        if types is not None:
            extra["types"] = types
        return extra | (permits.ends if permits else {})

    def renewer(seat: Seat, ends: Ends) -> int:
        return Renewer(config, ends.extra["requests"], seat, ends).run()

    def maintainer(seat: Seat, ends: Ends) -> int:
        groups = [Group(one, ends.extra[f"wake{i}"]) for i, one in enumerate(sets)]
        return Maintainer(config, runner_id, groups, seat, ends, since).run()

    def logger(seat: Seat, ends: Ends) -> int:
        return Log(ends.extra["read"], config.log_format, config.log_level, seat, ends).run()

    roles = [
        Role("log", logger, stop_order=3, extra=lambda _: {"read": log[0]}),
        Role(
            "renewer",
            renewer,
            stop_order=2,
            dies_with_parent=True,
            captures=True,
            extra=lambda _: {"requests": renewals.renewer_end.fileno()},
        ),
        Role(
            "maintainer",
            maintainer,
            stop_order=1,
            dies_with_parent=True,
            needs="renewer",
            captures=True,
            extra=lambda _: {f"wake{i}": write for i, (_, write) in enumerate(wakes)},
        ),
        Role(
            "worker",
            worker,
            dies_with_parent=True,
            needs="renewer",
            holds_leases=True,
            captures=True,
            extra=worker_ends,
        ),
    ]
    return Supervisor(
        config,
        roles,
        goal,
        renewals,
        events,
        log[1],
        groups=sets,
        leased=leased,
        permits=permits,
        on_terminal=_has_terminal(),
    )


def _sets_of_queues(config: FleetConfig) -> list[tuple[str, ...] | None]:
    """The different sets of queues that slots serve, in the order of the slots."""
    return list(dict.fromkeys(config.queues_of_slot(slot) for slot in range(config.procs)))


def _has_terminal() -> bool:
    try:
        return os.isatty(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
