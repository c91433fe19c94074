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
from ..maintaining.groups import Group, Groups
from ..maintaining.listening import Listener
from ..maintaining.orphans import Orphans
from ..maintaining.tallying import Tallying
from ..maintaining.waiting import Waiting
from ..observing import Observer
from ..places import Kind as WorkKind
from ..saying import say
from ..seat import Ends, Seat
from ..store import ending, passes
from ..store.bounded import Bounded, is_pooled
from ..store.claim import NO_BOUNDS, Bounds
from ..store.connect import conninfo
from ..wire import ORDER_SIZE, EventWriter, Kind, Order, Outcome, unpack_orders

POOLED = "behind a transaction pooler: polling instead of LISTEN, nothing prepared"
SWEEP_SECONDS = 10.0  # at least so often
ALIVE_AGAIN_SECONDS = 1.0
UNKNOWN_FIRST_SECONDS, UNKNOWN_SECONDS = 5.0, 60.0
DEAF_POLL_SECONDS = 0.5  # without LISTEN
DRAIN_POLL_SECONDS = 0.2
MOST_SESSIONS = 2  # for the passes
# After idling begins: what was enqueued just before sent no NOTIFY.
SECOND_LOOKS = (0.005, 0.02, 0.08, 0.32)


@dataclass
class Due:
    """Local times at which things are next to be done."""

    look: float = 0.0
    sweep: float = 0.0
    unknown: float = field(default_factory=lambda: now() + UNKNOWN_FIRST_SECONDS)
    second_looks: list[float] = field(default_factory=list)

    def next(self) -> float:
        """The earliest of them."""
        return min(self.look, self.sweep, *self.second_looks[:1])

    def look_is(self, at: float) -> bool:
        """Whether to look now: by the poll, or because somebody has begun to idle."""
        second = bool(self.second_looks) and at >= self.second_looks[0]
        if second:
            self.second_looks = [due for due in self.second_looks if due > at]
        return second or at >= self.look


class Maintainer:
    """Serves the workers of one parent; the passes serve every host."""

    def __init__(
        self,
        config: FleetConfig,
        runner_id: UUID,
        groups: Sequence[Group],
        seat: Seat,
        ends: Ends,
        tallying: Tallying,
        bounds: Bounds = NO_BOUNDS,
    ) -> None:
        self.config = config
        self.runner_id = runner_id
        self.tallying = tallying
        self.bounds = bounds
        self.control = ends.control
        self.events = EventWriter(ends.events, seat.incarnation)
        self.log = LogPipe(ends.log, config.log_level, role="maintainer")
        rng = random.Random()
        self.judge = Judge(config.backoff, rng)
        self.listener = Listener(config.dsn, rng, config.connection_seconds, wanted=config.listen)
        self.groups = Groups(groups)
        self.waiting = Waiting(config.procs)
        self.observer: Observer[UUID] = Observer()
        self.orphans = Orphans()
        self.due = Due()
        self.registered = False
        self.failures = 0  # passes, one after the other
        self.alive_at = float("-inf")  # was said
        self.types: set[str] = set()

    # -- the story --------------------------------------------------------------------------------

    def run(self) -> int:
        """Wake and tidy until the parent says stop."""
        self.pool = self.open_pool()
        self.events.send(Kind.HELLO)
        while not self.wait():
            self.say_alive()
            if self.listener.keep():
                self.due.look = 0.0  # what was enqueued while it was deaf has woken nobody
            try:
                self.attend()
                self.failures = 0
            except (psycopg.Error, PoolTimeout) as error:
                self.put_off(error)
        self.leave()
        return 0

    def say_alive(self) -> None:
        """At most once a second: it wakes the parent, and on a small machine what has just been heard of
        needs the processor more."""
        if (at := now()) >= self.alive_at + ALIVE_AGAIN_SECONDS:
            self.alive_at = at
            self.events.send(Kind.ALIVE)

    def put_off(self, error: psycopg.Error | PoolTimeout) -> None:
        """Make it again at the next poll; at once while that may be for a session that had ended before,
        as all in the pool have after an outage. The renewer tells of those."""
        self.log.debug("pass_failed", f"pass failed: {type(error).__name__}: {error}")
        self.failures += 1
        at_once = self.failures <= MOST_SESSIONS and not isinstance(error, PoolTimeout)
        wait = 0.0 if at_once else self.config.poll_seconds
        self.due.look = self.due.sweep = now() + wait

    def open_pool(self) -> ConnectionPool:
        """Connections for the passes; they come back by themselves, however long that takes."""
        # The pool tells of each failed try; the renewer tells of the outage, once.
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
        return ConnectionPool(
            conninfo(self.config.dsn, "maintainer"),
            min_size=1,
            max_size=MOST_SESSIONS,
            timeout=ALIVE_SECONDS,  # without one for longer it would be taken for hung
            connection_class=Bounded,
            kwargs={"autocommit": True},
            max_lifetime=self.config.connection_seconds,
            max_idle=300,
            reconnect_timeout=float("inf"),
            open=True,
        )

    def wait(self) -> bool:
        """Sleep until something is due or heard; True when told to stop."""
        until = min(self.due.next(), self.groups.busy_at())
        seconds = min(ALIVE_SECONDS, max(0.0, until - now()))
        fds = [self.control, self.tallying.fd, *self.listener.fds]
        ready, _, _ = select.select(fds, [], [], seconds)
        if set(self.listener.fds) & set(ready):
            for queue, count in self.listener.hear():
                self.groups.wake(queue, count)
        return self.control in ready and self.read_orders()

    def read_orders(self) -> bool:
        """Take in how many workers are idle; True at a stop, or when the parent is gone."""
        data = os.read(self.control, 64 * ORDER_SIZE)
        if not data:
            return True
        for order, _, group, count in unpack_orders(data):
            if order is Order.STOP:
                return True
            if order is Order.IDLE and self.groups.set_idle(group, count):
                self.due.second_looks = [now() + after for after in SECOND_LOOKS]
        return False

    def attend(self) -> None:
        """Whatever is due."""
        at = now()
        if not self.registered:
            with self.pool.connection() as conn:
                passes.register_runner(conn, self.runner_id, self.config, socket.gethostname())
                if is_pooled(conn):
                    self.log.info("pooler", POOLED)
            self.registered = True
        if (idle := self.groups.to_say()) is not None:
            with self.pool.connection() as conn:
                passes.set_idle(conn, self.runner_id, idle)
            self.groups.said_idle = idle
        if at >= self.due.sweep:
            self.sweep()
        if self.due.look_is(at):
            self.look()
        self.tallying.keep(self.pool.connection, self.log)

    def leave(self) -> None:
        """Take the runner's row along."""
        trouble = (psycopg.Error, PoolTimeout)
        with contextlib.suppress(*trouble), self.pool.connection(timeout=1.0) as conn:
            passes.remove_runner(conn, self.runner_id)
            self.tallying.take()
            self.tallying.write(conn)
        self.pool.close(timeout=1.0)

    # -- looking ----------------------------------------------------------------------------------

    def look(self) -> None:
        """The poll for all: promote what is due, wake for what waits, and plan the next look."""
        begun = now()
        faults.point("look")
        with self.pool.connection() as conn:
            next_due = passes.next_due(conn)
            if next_due is not None and next_due <= 0:
                self.promoted(passes.promote(conn, self.bounds.failed_before))
                next_due = passes.next_due(conn)
            runnable = self.runnable(conn)
            retry = self.retry_is_near(conn)
        self.groups.wake_for({kind.queue for kind in runnable})
        self.events.send(Kind.BACKLOG, count=len(runnable), at=begun, flag=retry)
        self.due.look = self.next_look(begun, next_due)

    def runnable(self, conn: psycopg.Connection[object]) -> list[WorkKind]:
        """The kinds that wait, that our workers know, and that are not paused."""
        kinds = self.waiting.list(conn)
        if not kinds:
            return []
        self.types = self.types or passes.types_of(conn, self.runner_id)
        if now() >= self.due.unknown and self.config.drain is None:
            self.tell_unknown(kinds, passes.known_types(conn))
        known = [kind for kind in kinds if kind.task_type in self.types]
        return passes.without_paused(conn, known) if known else []

    def tell_unknown(self, kinds: Sequence[WorkKind], known: set[str]) -> None:
        """One line a minute for each type that nobody alive has a handler for."""
        for name in sorted({kind.task_type for kind in kinds} - known):
            self.log.warning("not_implemented", f"task type not implemented: {name}", type=name)
        self.due.unknown = now() + UNKNOWN_SECONDS

    def retry_is_near(self, conn: psycopg.Connection[object]) -> bool:
        """Whether a drain has to wait for a task that failed and is due again soon enough."""
        drain = self.config.drain
        if drain is None or drain.wait_retries_seconds is None:
            return False
        queues = [queue.name for queue in self.config.queues] or None
        return passes.retry_within(conn, queues, drain.wait_retries_seconds)

    def next_look(self, begun: float, next_due: float | None) -> float:
        """By the poll, sooner when something is due sooner, later when looking has become dear."""
        poll = self.config.poll_seconds if self.listener.fds else DEAF_POLL_SECONDS
        if self.config.drain is not None:
            poll = min(poll, DRAIN_POLL_SECONDS)
        # Under an old snapshot a look wades through what was consumed: at most a twentieth of the time.
        wait = max(poll, 20 * (now() - begun))
        if next_due is not None and next_due > 0:
            wait = min(wait, next_due + 0.001)
        elif next_due is not None and self.config.drain is None:
            wait = min(wait, 0.01)  # more is due than one pass takes
        return begun + wait

    # -- passes -----------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Take the leases that have ended, return orphans, forget what is over."""
        at = now()
        faults.point("sweep")
        with self.pool.connection() as conn:
            ripe, next_at = self.observer.look(passes.leases(conn), at)
            orphans = self.orphans.wait(conn)
            ended = []
            if ripe or orphans:
                ended = passes.sweep(conn, ripe, self.judge, orphans=orphans)
            passes.prune(conn, self.runner_id, self.config.keep_receipts_seconds)
            self.types = passes.types_of(conn, self.runner_id)
            # Again: another host's pass forgets a runner whose workers were gone for a while.
            passes.register_runner(conn, self.runner_id, self.config, socket.gethostname())
        for one in ended:
            self.tell_swept(one)
        self.promoted(len(ended))
        latest = at + min(SWEEP_SECONDS, self.config.lease_seconds)
        self.due.sweep = min(latest, max(next_at, at + 0.1))

    def tell_swept(self, one: ending.Ended) -> None:
        """Log what was ended for a worker that nobody speaks for."""
        verdict = one.verdict
        said = say(one.task_type, one.task_id, verdict.outcome, verdict.attempt, verdict.cause)
        if verdict.outcome is not Outcome.DEAD:
            said = said._replace(level="warning", event="swept")
        self.log.emit(*said, task=one.task_id, type=one.task_type, cause=verdict.cause)

    def promoted(self, count: int) -> None:
        """Tasks became ready: the parent must know before it ends a drain."""
        if count:
            self.events.send(Kind.PROMOTED, count=count)
            self.groups.wake(count=count)
