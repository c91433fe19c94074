"""The composition root: a config becomes roles, pipes and a supervisor.

Everything that the children will share is imported here, before the first fork; no connection is open
while there are children.
"""

import os
import sys
from collections.abc import Sequence
from uuid import UUID, uuid4

from .config import FleetConfig
from .maintaining.groups import Group
from .permits import Permits
from .roles.log import Log
from .roles.maintainer import Maintainer
from .roles.renewer import Renewer
from .roles.worker import Worker
from .seat import Ends, Seat
from .store import schema
from .store.claim import NO_BOUNDS, Bounds
from .store.connect import connected
from .supervisor.course import Report
from .supervisor.goals import Goal, RunForever
from .supervisor.renewals import Renewals
from .supervisor.role import Role
from .supervisor.spawn import set_pipe_size
from .supervisor.supervisor import Supervisor

HELPERS = 5  # connections of a fleet beside one for each worker


def start(config: FleetConfig, *, connect_wait_seconds: float = 60.0) -> Report:
    """Run a fleet until it is stopped."""
    with connected(config.dsn, "start", connect_wait_seconds) as conn:
        schema.check(conn)
    return compose(config, uuid4(), RunForever(config.procs)).run()


def compose(
    config: FleetConfig,
    runner_id: UUID,
    goal: Goal,
    *,
    bounds: Bounds = NO_BOUNDS,
    leased: Sequence[bytes] = (),
    types: int | None = None,
) -> Supervisor:
    """The fleet of a config: its pipes, its roles, its parent.

    `bounds`: what a drain leaves. `leased`: further rows to renew. `types`: a file that workers
    write the names of their handlers to, because the parent never loads the app.
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
        permits = Permits(config.drain.max_tasks, config.procs)

    def worker(seat: Seat, ends: Ends) -> int:
        return Worker(config, runner_id, seat, ends, bounds, permits).run()

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
        return Maintainer(config, runner_id, groups, seat, ends, bounds).run()

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
