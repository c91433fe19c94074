"""A parent, by its own code, with its operating system played."""

import os
import random
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

from runner.backoff import Backoff
from runner.config import FleetConfig
from runner.judge import Judge
from runner.supervisor import course, deaths, family, leases, renewals, staff, stopping, supervisor
from runner.supervisor.child import Child, Why
from runner.supervisor.goals import RunForever
from runner.supervisor.means import Means
from runner.supervisor.reaper import Death
from runner.supervisor.role import Role
from runner.supervisor.tallies import Tallies
from runner.wire import Event, Order

from .database import Database
from .helpers import Maintainer, Renewer
from .kinds import KINDS
from .process import Process
from .server import Server
from .worker import Worker
from .world import Violation, World

READ_SECONDS = 0.001  # from an event's being written to the parent's reading of it
TURN_SECONDS = 0.01


class Silent:
    """A log that nobody reads."""

    def debug(self, *_: object, **__: object) -> None:
        pass

    info = warning = error = emit = debug


class Kernel:
    """`runner.kernel` and `runner.supervisor.reaper`, of the fleet whose turn it is."""

    fleet: "Fleet"

    def become_subreaper(self) -> None:
        pass

    def children_of(self, pid: int) -> set[int]:
        return set()

    def state_of(self, pid: int) -> str:
        if "the stopped are renewed" in self.fleet.world.broken:
            return "S"
        return "T" if self.fleet.world.procs[pid].stopped else "S"

    def rss_of(self, pid: int) -> int:
        return 0

    def oom_kills(self) -> int:
        return 0

    def next_dead(self) -> int | None:
        return self.fleet.zombies[0] if self.fleet.zombies else None

    def reap(self, pid: int) -> Death:
        self.fleet.zombies.remove(pid)
        code = self.fleet.world.procs.pop(pid).code
        return Death(pid, None, -code) if code < 0 else Death(pid, code, None)

    def kill_group(self, pid: int) -> None:
        process = self.fleet.world.procs[pid]
        if not process.dead:
            process.kill(slowly=True)

    def kill_strays(self, ours: Iterable[int], spared: Iterable[int]) -> None:
        pass


KERNEL = Kernel()


def virtual_now() -> float:
    """`runner.clock.now` of the host whose turn it is."""
    return KERNEL.fleet.world.time


@contextmanager
def played() -> Iterator[None]:
    """The parent's modules with the kernel, the clock and the fork played."""
    targets: list[tuple[Any, str, Any]] = [
        (module, "now", virtual_now)
        for module in (course, deaths, leases, staff, stopping, supervisor)
    ]
    targets += [(module, "kernel", KERNEL) for module in (deaths, renewals, supervisor)]
    targets += [(deaths, "cgroup", KERNEL)]
    targets += [(module, "reaper", KERNEL) for module in (deaths, family)]
    targets += [(supervisor, "Family", PlayedFamily)]
    patches = [patch.object(module, name, value) for module, name, value in targets]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in reversed(patches):
            one.stop()


class PlayedFamily(family.Family):
    """The table of children; they are processes of the simulator."""

    def __init__(self, events: int, log_fd: int) -> None:
        self.log = Silent()  # type: ignore[assignment]
        self.by_pid, self.by_incarnation = {}, {}
        self._incarnations = 0
        self.fleet = KERNEL.fleet

    def spawn(self, role: Role, slot: int) -> Child:
        self._incarnations += 1
        child = self.fleet.fork(role, slot, self._incarnations)
        self.by_pid[child.pid] = child
        self.by_incarnation[child.incarnation] = child
        return child

    def tell(
        self, child: Child, order: Order, at: float = 0.0, *, group: int = 0, count: int = 0
    ) -> None:
        if order is not Order.IDLE:
            self.fleet.world.procs[child.pid].tell(order, at)

    def ask_stack(self, child: Child) -> None:
        if child.work is not None:
            child.asked_stack_of = child.work.fence

    def interrupt(self, child: Child, why: Why) -> None:
        self.fleet.killing(child, why)
        child.term_for = why
        self.fleet.world.procs[child.pid].interrupt()

    def kill(self, child: Child, why: Why) -> None:
        self.fleet.killing(child, why)
        super().kill(child, why)


class Parent(supervisor.Supervisor):
    """Its events and signals come from the simulator."""

    fleet: "Fleet"

    def read_events(self) -> None:
        events, self.fleet.events = self.fleet.events, []
        at = self.fleet.world.time
        for event in events:
            self.hear(event, at)


class Requests(renewals.Renewals):
    """What is sent wakes the renewer."""

    fleet: "Fleet"

    def _send(self, request: bytes) -> bool:
        for process in self.fleet.processes.values():
            if process.name == "renewer":
                self.fleet.world.after(0.0005, process.nudge)
        return super()._send(request)


class Fleet:
    """One parent after the other on one host, with their children."""

    def __init__(self, world: World, db: Database, server: Server) -> None:
        self.world, self.db, self.server = world, db, server
        self.kinds = KINDS
        unsafe = [] if "no kill" not in world.broken else ["no-kill"]
        self.config = FleetConfig(
            "",
            None,
            procs=world.mix.procs,
            lease_seconds=world.mix.lease_seconds,
            grace_seconds=2.0,
            backoff=Backoff(0.1, 1.0),
            unsafe=frozenset(unsafe),
        )
        self.judge = Judge(self.config.backoff, random.Random(world.seed))
        self.alive = self.stopped = False
        self.events: list[Event] = []
        self.zombies: list[int] = []
        self.processes: dict[int, Process] = {}
        self._wake_at = float("inf")
        self._turned_at = 0.0
        self.supervisor: Parent

    # -- its life ---------------------------------------------------------------------------------

    def start(self) -> None:
        KERNEL.fleet = self
        self.alive, self.stopped = True, False
        self.events, self.zombies, self.processes = [], [], {}
        self._wake_at = float("inf")
        roles = [
            Role("renewer", _never, stop_order=2),
            Role("maintainer", _never, stop_order=1, needs="renewer"),
            Role("worker", _never, needs="renewer", holds_leases=True),
        ]
        asks = Requests(self.config.renew_every)
        asks.fleet = self
        asks.renewer_end.setblocking(False)
        goal = RunForever(self.config.procs)
        self.tallies = Tallies()
        means = Means((-1, -1), -1, asks, self.tallies)
        self.supervisor = Parent(self.config, roles, goal, means)
        self.supervisor.fleet = self
        self.wake(self.world.time)

    def fork(self, role: Role, slot: int, incarnation: int) -> Child:
        at = self.world.time
        tokens = -1
        values = (self.world, self.db, self, incarnation)
        if role.holds_leases:
            pipe = os.pipe()
            process: Process = Worker(*values, tokens=pipe)
            tokens = os.dup(pipe[0])
        else:
            process = Renewer(*values) if role.name == "renewer" else Maintainer(*values)
        self.processes[process.pid] = process
        return Child(role, slot, incarnation, process.pid, at, at, -1, -1, -1, tokens)

    def kill_parent(self) -> None:
        """Its children go with it: the kernel sees to that."""
        if not self.alive:
            return
        self.alive = False
        for process in list(self.processes.values()):
            process.kill()
        self.world.after(self.world.rng.uniform(0.05, 0.5), self._start_again)

    def _start_again(self) -> None:
        self._close()
        self.start()

    def _close(self) -> None:
        for process in list(self.processes.values()):
            with suppress(Violation):  # a history that has ended with one is not looked at any more
                process.die(-9)
            self.world.procs.pop(process.pid, None)
        for child in self.supervisor.family:
            if child.tokens >= 0:
                os.close(child.tokens)
        self.supervisor.renewals.parent_end.close()
        self.supervisor.renewals.renewer_end.close()
        self.tallies.close()

    def close(self) -> None:
        """The history is over."""
        self.alive = False
        self._close()

    def told_to_stop(self) -> None:
        """TERM to the parent; a new one follows when it is through."""
        if self.alive and self.supervisor.course.stop is None:
            KERNEL.fleet = self
            self.supervisor.stopping.by_signal(signal.SIGTERM)
            self.wake(self.world.time)

    # -- what it hears ----------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        self.events.append(event)
        self.wake(self.world.time + READ_SECONDS)

    def died(self, process: Process) -> None:
        self.processes.pop(process.pid, None)
        if self.alive:
            self.zombies.append(process.pid)
            self.wake(self.world.time)
        else:
            self.world.procs.pop(process.pid, None)

    def wake(self, at: float) -> None:
        at = max(at, self._turned_at + TURN_SECONDS)
        if at < self._wake_at:
            self._wake_at = at
            self.world.at(at, self._turn, at)

    def _turn(self, at: float) -> None:
        if not self.alive or at != self._wake_at:
            return
        self._wake_at = float("inf")
        if self.stopped:
            return
        self._turned_at = at
        KERNEL.fleet = self
        parent = self.supervisor
        if "death before events" not in self.world.broken:
            parent.read_events()
        parent.reap_children()
        if not self.alive:
            return
        parent.turn()
        if parent.over():
            self._close()
            self.alive = False
            self.world.after(self.world.rng.uniform(0.05, 0.5), self.start)
            return
        self.wake(min(at + 1.0, parent.leases.next_deadline(), parent.staff.next_start_at()))

    def go_on(self) -> None:
        """SIGCONT."""
        self.stopped = False
        self.wake(self.world.time)

    # -- what it may do ---------------------------------------------------------------------------

    def killing(self, child: Child, why: Why) -> None:
        """Nobody is killed for a task that is still its own."""
        if why not in (Why.TAKEN, Why.LEASE) or self.world.mix.forgets:
            return
        process = self.world.procs[child.pid]
        work = child.work
        if child.taken and child.worker not in self.db.workers:
            return  # with its lease it has lost all that it had
        if why is Why.TAKEN and work is not None:
            row = self.db.tasks.get(work.task)
            there = row is not None and row.state == "running" and row.fence == work.fence
            ended = self.db.ended.get((work.task, work.fence), "")
            if there or ended == "its worker":
                raise Violation(f"{child.name} is killed for task {work.task}, its own: {ended}")
        elif child.taken:
            raise Violation(f"{child.name} is killed for a lease that it has ({process.pid})")


def _never(*_: object) -> int:
    raise AssertionError
