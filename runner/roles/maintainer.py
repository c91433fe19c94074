"""The maintainer: wakes the idle, and makes the passes (promote, sweep, prune)."""

import contextlib
import logging
import os
import random
import select
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from .. import faults
from ..clock import now
from ..config import ALIVE_SECONDS, FleetConfig
from ..judge import Judge
from ..logpipe import LogPipe
from ..observing import Observer
from ..places import COST_FACTOR, LAP_SECONDS, Places
from ..places import Kind as WorkKind
from ..seat import Ends, Seat
from ..store import passes
from ..store.claim import NO_BOUNDS, Bounds, ServerClock, list_kinds
from ..store.connect import connect, conninfo, ensure_durable
from ..text import attempts
from ..wire import ORDER_SIZE, EventWriter, Kind, Order, Outcome, unpack_orders

SWEEP_SECONDS = 10.0  # at least so often
UNKNOWN_FIRST_SECONDS, UNKNOWN_SECONDS = 5.0, 60.0
DEAF_POLL_SECONDS = 0.5  # without LISTEN
BUSY_SECONDS = 1.0  # `idle` is taken back after so long without anybody idle
SECOND_LOOKS = (
    0.005,
    0.02,
    0.08,
    0.32,
)  # after idling begins: what came just before sent no NOTIFY
RELISTEN_FIRST_SECONDS, RELISTEN_CAP_SECONDS = 0.2, 5.0
LISTEN_CHECK_SECONDS = 15.0
LATE_SECONDS = (
    2.0  # between looks for late commits, while a transaction is open that may bring some
)


@dataclass
class Group:
    """The workers that serve one set of queues, and the pipe that wakes them."""

    queues: tuple[str, ...] | None
    wake: int
    idle: int = 0

    def serves(self, queue: str) -> bool:
        """Whether its workers claim from this queue."""
        return self.queues is None or queue in self.queues

    def wake_some(self, count: int) -> None:
        """As many bytes as there are tasks, or idle workers; each wakes one. More tasks than bytes
        say are found all the same: a worker that was woken and found work wakes the next."""
        if number := min(count, self.idle):
            with contextlib.suppress(BlockingIOError):
                os.write(self.wake, b"." * number)


class Waiting:
    """Which kinds wait, asked for again and again at little cost: from the marks of those known."""

    def __init__(self, procs: int) -> None:
        self._procs = procs
        self._places = Places()
        self._clock: ServerClock | None = None
        self._lapped_at = float("-inf")
        self._put_off_seconds = 0.0

    def list(self, conn: psycopg.Connection[object]) -> list[WorkKind]:
        """The kinds that have ready rows now."""
        begun = now()
        self._clock = self._clock or ServerClock(conn)
        # Below the marks only late commits leave anything; a look there costs what lies there.
        every = LAP_SECONDS if self._places.unclean is None else LATE_SECONDS
        lap = begun - self._lapped_at >= max(every, self._put_off_seconds)
        found = list_kinds(conn, self._places, full=lap, draw=True)
        if lap:
            self._places.made_lap()
            self._lapped_at = begun
            self._put_off_seconds = COST_FACTOR * self._procs * max(0.0, now() - begun - 0.005)
        self._places.listed(found, self._clock.stratum())
        return found


@dataclass
class Due:
    """Local times at which things are next to be done."""

    look: float = 0.0
    sweep: float = 0.0
    unknown: float = field(default_factory=lambda: now() + UNKNOWN_FIRST_SECONDS)
    listen: float = 0.0
    second_looks: list[float] = field(default_factory=list)

    def next(self) -> float:
        """The earliest of them."""
        return min(self.look, self.sweep, *self.second_looks[:1])


class Maintainer:
    """Serves the workers of one parent; the passes serve every host."""

    def __init__(
        self,
        config: FleetConfig,
        runner_id: UUID,
        groups: Sequence[Group],
        seat: Seat,
        ends: Ends,
        bounds: Bounds = NO_BOUNDS,
    ) -> None:
        self.config = config
        self.runner_id = runner_id
        self.groups = groups
        self.bounds = bounds
        self.control = ends.control
        self.events = EventWriter(ends.events, seat.incarnation)
        self.log = LogPipe(ends.log, role="maintainer")
        self.rng = random.Random()
        self.judge = Judge(config.backoff, self.rng)
        self.observer: Observer[UUID] = Observer()
        self.due = Due()
        self.listener: psycopg.Connection[object] | None = None
        self.relisten_seconds = RELISTEN_FIRST_SECONDS
        self.heard_at = now()
        self.idle_since: float | None = None
        self.busy_since: float | None = now()
        self.said_idle = False
        self.registered = False
        self.types: set[str] = set()
        self.waiting = Waiting(config.procs)

    # -- the story --------------------------------------------------------------------------------

    def run(self) -> int:
        """Wake and tidy until the parent says stop."""
        # The pool tells of each failed try; the renewer tells of the outage, once.
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
        self.pool = ConnectionPool(
            conninfo(self.config.dsn, "maintainer"),
            min_size=1,
            max_size=2,
            kwargs={"autocommit": True},
            configure=ensure_durable,
            max_lifetime=1800,
            max_idle=300,
            reconnect_timeout=float("inf"),
            open=False,
        )
        self.pool.open()
        self.events.send(Kind.HELLO)
        while not self.wait():
            self.events.send(Kind.ALIVE)
            self.keep_listening()
            try:
                self.attend()
            except (psycopg.Error, PoolTimeout) as error:
                # The renewer tells of outages; a pass that failed is made again at the next poll.
                self.log.debug("pass_failed", f"pass failed: {type(error).__name__}: {error}")
                self.due.look = self.due.sweep = now() + self.config.poll_seconds
        self.leave()
        return 0

    def wait(self) -> bool:
        """Sleep until something is due or heard; True when told to stop."""
        seconds = min(ALIVE_SECONDS, max(0.0, self.due.next() - now()))
        if self.said_idle and self.busy_since is not None:
            seconds = min(seconds, max(0.0, self.busy_since + BUSY_SECONDS - now()))
        fds = [self.control] + ([self.listener.fileno()] if self.listener else [])
        ready, _, _ = select.select(fds, [], [], seconds)
        if self.listener and self.listener.fileno() in ready:
            self.hear()
        return self.control in ready and self.read_orders()

    def read_orders(self) -> bool:
        """Take in how many workers are idle; True at a stop, or when the parent is gone."""
        data = os.read(self.control, 64 * ORDER_SIZE)
        if not data:
            return True
        for order, _, group, count in unpack_orders(data):
            if order is Order.STOP:
                return True
            if order is Order.IDLE:
                self.groups[group].idle = count
        self.note_idle(any(group.idle for group in self.groups))
        return False

    def note_idle(self, idle: bool) -> None:
        """Somebody began to idle, or nobody does any more."""
        if idle and self.idle_since is None:
            self.idle_since, self.busy_since = now(), None
            self.due.second_looks = [self.idle_since + after for after in SECOND_LOOKS]
        elif not idle and self.idle_since is not None:
            self.idle_since, self.busy_since = None, now()

    def attend(self) -> None:
        """Whatever is due."""
        at = now()
        if not self.registered:
            with self.pool.connection() as conn:
                passes.register_runner(conn, self.runner_id, self.config, socket.gethostname())
            self.registered = True
        self.say_idle(at)
        if self.due.second_looks and at >= self.due.second_looks[0]:
            self.due.second_looks = [due for due in self.due.second_looks if due > at]
            self.due.look = at
        if at >= self.due.sweep:
            self.sweep()
        if at >= self.due.look:
            self.look()

    def leave(self) -> None:
        """Take the runner's row along."""
        trouble = (psycopg.Error, PoolTimeout)
        with contextlib.suppress(*trouble), self.pool.connection(timeout=1.0) as conn:
            passes.remove_runner(conn, self.runner_id)
        self.pool.close(timeout=1.0)

    # -- waking -----------------------------------------------------------------------------------

    def keep_listening(self) -> None:
        """LISTEN on a connection of its own; a silent link is found by asking it something."""
        if not self.config.listen:
            return
        at = now()
        try:
            if self.listener is None:
                if at < self.due.listen:
                    return
                self.listener = connect(self.config.dsn, "listener")
                passes.listen(self.listener)
                self.relisten_seconds = RELISTEN_FIRST_SECONDS
                self.due.look = self.heard_at = at  # what came meanwhile was not heard
            elif at - self.heard_at > LISTEN_CHECK_SECONDS:
                passes.ask(self.listener)
                self.heard_at = at
        except psycopg.Error:
            self.deaf()

    def deaf(self) -> None:
        """The listening connection is lost: poll, and listen again after a while."""
        if self.listener is not None:
            self.listener.close()
        self.listener = None
        self.due.listen = now() + self.relisten_seconds * (0.5 + self.rng.random())
        self.relisten_seconds = min(RELISTEN_CAP_SECONDS, self.relisten_seconds * 2)

    def hear(self) -> None:
        """Wake workers for each queue that was named; an empty payload names every queue."""
        assert self.listener is not None
        self.heard_at = now()
        faults.point("hear")
        try:
            for notification in self.listener.notifies(timeout=0):
                count, _, queue = notification.payload.partition(" ")
                self.wake(queue, int(count) if count.isdecimal() else 1)
        except psycopg.Error:
            self.deaf()

    def wake(self, queue: str = "", count: int = 1) -> None:
        """Wake so many workers of every group that serves this queue."""
        for group in self.groups:
            if not queue or group.serves(queue):
                group.wake_some(count)

    def say_idle(self, at: float) -> None:
        """Let enqueuers know whether a NOTIFY is of use; not at every change of a busy fleet."""
        if self.idle_since is not None and not self.said_idle:
            idle = True
        elif (
            self.said_idle and self.busy_since is not None and at >= self.busy_since + BUSY_SECONDS
        ):
            idle = False
        else:
            return
        with self.pool.connection() as conn:
            passes.set_idle(conn, self.runner_id, idle)
        self.said_idle = idle

    # -- passes -----------------------------------------------------------------------------------

    def look(self) -> None:
        """The poll for all: promote what is due, wake for what waits, and plan the next look."""
        begun = now()
        faults.point("look")
        with self.pool.connection() as conn:
            next_due = passes.next_due(conn)
            if next_due is not None and next_due <= 0:
                self.promoted(passes.promote(conn, self.bounds.failed_before))
                next_due = passes.next_due(conn)
            kinds = self.waiting.list(conn)
            retry = self.retry_is_near(conn)
            if kinds and not self.types:
                self.types = passes.types_of(conn, self.runner_id)
            if kinds and begun >= self.due.unknown and self.config.drain is None:
                self.tell_unknown(kinds, passes.known_types(conn))
            runnable = [kind for kind in kinds if kind.task_type in self.types]
            if runnable:
                runnable = passes.without_paused(conn, runnable)
        for group in self.groups:
            if any(group.serves(kind.queue) for kind in runnable):
                group.wake_some(1)
        self.events.send(Kind.BACKLOG, count=len(runnable), at=begun, flag=retry)
        self.due.look = self.next_look(begun, next_due)

    def retry_is_near(self, conn: psycopg.Connection[object]) -> bool:
        """Whether a drain has to wait for a task that failed and is due again soon enough."""
        drain = self.config.drain
        if drain is None or drain.wait_retries_seconds is None:
            return False
        queues = [queue.name for queue in self.config.queues] or None
        return passes.retry_within(conn, queues, drain.wait_retries_seconds)

    def next_look(self, begun: float, next_due: float | None) -> float:
        """By the poll, sooner when something is due sooner, later when looking has become dear."""
        poll = self.config.poll_seconds if self.listener else DEAF_POLL_SECONDS
        if self.config.drain is not None:
            poll = min(poll, 0.2)
        cost = now() - begun
        wait = max(poll, 20 * cost)
        if next_due is not None and next_due > 0:
            wait = min(wait, next_due + 0.001)
        elif next_due is not None and self.config.drain is None:
            wait = min(wait, 0.01)  # more is due than one pass takes
        return begun + wait

    def sweep(self) -> None:
        """Take the leases that have ended, return orphans, forget what is over."""
        at = now()
        faults.point("sweep")
        with self.pool.connection() as conn:
            ripe, next_at = self.observer.look(passes.leases(conn), at)
            ended = passes.sweep(conn, ripe, self.judge) if passes.sweep_is_due(conn, ripe) else []
            passes.prune(conn, self.runner_id)
            self.types = passes.types_of(conn, self.runner_id)
            passes.register_runner(conn, self.runner_id, self.config, socket.gethostname())
        for one in ended:
            verdict, what = one.verdict, f"{one.task_type} {one.task_id}"
            fields = {"task": one.task_id, "type": one.task_type, "cause": verdict.cause}
            if verdict.outcome is Outcome.DEAD:
                count = attempts(verdict.attempt)
                self.log.error("dead", f"{what} is dead after {count}: {verdict.cause}", **fields)
            else:
                text = f"{what} swept: {verdict.cause}, now {verdict.state}"
                self.log.warning("swept", text, **fields)
        self.promoted(len(ended))
        self.due.sweep = min(at + SWEEP_SECONDS, max(next_at, at + 0.1))

    def promoted(self, count: int) -> None:
        """Tasks became ready: the parent must know before it ends a drain."""
        if count:
            self.events.send(Kind.PROMOTED, count=count)
            self.wake()

    def tell_unknown(self, kinds: Sequence[WorkKind], known: set[str]) -> None:
        """One line a minute for each type that nobody alive has a handler for."""
        for name in sorted({kind.task_type for kind in kinds} - known):
            self.log.warning("not_implemented", f"task type not implemented: {name}", type=name)
        self.due.unknown = now() + UNKNOWN_SECONDS
