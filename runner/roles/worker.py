"""The worker: claims one task at a time and runs its handler, under a lease that its parent renews."""

import contextlib
import json
import logging
import os
import random
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

import psycopg

from .. import app, faults, kernel
from ..clock import now
from ..config import ALIVE_SECONDS, FleetConfig
from ..errors import RunnerError
from ..handling.attempt import Attempts
from ..handling.calling import Calling
from ..handling.executor import Executor
from ..handling.handoff import Handoff
from ..handling.interrupts import Interrupts
from ..handling.lifeline import Lifeline, wait_readable
from ..handling.looking import Looking
from ..handling.pace import MOST, Pace
from ..handling.printing import Printed
from ..handling.restore import ProcessState
from ..handling.session import Disconnected, Former, Session
from ..judge import Judge
from ..logpipe import LogPipe, PipeHandler
from ..permits import Permits
from ..registry import Registry
from ..seat import Ends, Seat
from ..store.claim import NO_BOUNDS, Bounds, Row
from ..store.connect import connect, parse, tells_of_server
from ..store.tx import Tx
from ..store.workers import Identity, register_worker
from ..task import Task
from ..text import error_text
from ..wire import EventWriter, Kind

RECONNECT_FIRST_SECONDS, RECONNECT_CAP_SECONDS = 0.1, 5.0
IDLE_POLLS = 30  # an idle worker looks of its own this many times less often than the maintainer


class Worker:
    """One worker process, from its boot to its last claim."""

    def __init__(
        self,
        config: FleetConfig,
        runner_id: UUID,
        seat: Seat,
        ends: Ends,
        bounds: Bounds = NO_BOUNDS,
        permit: Permits | None = None,
    ) -> None:
        self.config = config
        self.runner_id = runner_id
        self.seat = seat
        self.ends = ends
        self.bounds = bounds
        self.permit = permit
        self.events = EventWriter(ends.events, seat.incarnation)
        self.log = LogPipe(
            ends.log, config.log_level, role="worker", slot=seat.slot, pid=os.getpid()
        )
        self.lifeline = Lifeline(ends.control, config.usable, timer="no-timer" not in config.unsafe)
        self.interrupts = Interrupts()
        self.rng = random.Random()
        self.judge = Judge(config.backoff, self.rng)
        self.queues = config.queues_of_slot(seat.slot)
        self.handoff = Handoff(ends.extra["tokens"], ends.extra["tokens_back"])
        self.pace = Pace()
        self.was_woken = False
        self.claim_trouble = ""
        self.trouble_seconds = 0.1
        self.session: Session
        self.registry: Registry

    # -- the story --------------------------------------------------------------------------------

    def run(self) -> int:
        """Boot, then serve under one identity after the other until told to stop."""
        kernel.become_subreaper()
        self.interrupts.install()
        self.printed = [Printed(self.log, stream.buffer) for stream in (sys.stdout, sys.stderr)]
        sys.stdout, sys.stderr = self.printed
        self.lifeline.start()
        if (refusal := self.boot()) is not None:
            return refusal
        former: Former | None = None
        while not self.lifeline.stopping:
            try:
                self.open_session(former)
                former = None
                self.serve()
            except Disconnected as lost:
                former = self.former_after(lost, former)
        self.leave()
        return 0

    def former_after(self, lost: Disconnected, former: Former | None) -> Former:
        """The identity to settle next: one that is not settled yet stays the one."""
        if former is not None:
            return former
        return Former(self.session.worker_id, lost.left, tuple(self.executor.done))

    def boot(self) -> int | None:
        """Load the app; the exit code when that is refused."""
        try:
            if self.config.app is None:
                self.registry = Registry()
            else:
                self.registry = app.load(self.config.app, self.config.app_dir)
        except RunnerError as error:
            self.log.error("fatal", str(error), hint=error.hint, code=error.exit_code)
            self.events.send(Kind.REFUSED, flag=error.exit_code)
            return error.exit_code
        if not len(self.registry) and self.seat.slot == 0:
            self.log.warning("no_handlers", f"app {self.config.app} registers no handlers")
        if (types := self.ends.extra.get("types")) is not None:
            os.pwrite(types, json.dumps(self.registry.types).encode(), 0)
        self._log_to_pipe()
        self._call_hooks(self.registry.hooks.on_worker_start)
        self.interrupts.install()  # the app may have taken it
        self.calling = Calling(
            self.interrupts,
            ProcessState(),
            self.printed,
            self.registry.hooks,
            lambda count: self.log.info(
                "descendants", f"killed {count} processes that a task left running"
            ),
        )
        return None

    def _call_hooks(self, hooks: Sequence[Callable[[], object]]) -> None:
        for hook in hooks:
            try:
                hook()
            except Exception as error:
                self.log.error("hook_failed", f"a hook failed: {error_text(error)}")

    def _on_error(self, task: Task, error: BaseException) -> None:
        for hook in self.registry.hooks.on_error:
            try:
                hook(task, error)
            except Exception as trouble:
                self.log.error("hook_failed", f"on_error failed: {error_text(trouble)}")

    def _log_to_pipe(self) -> None:
        logger = logging.getLogger("runner.task")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(PipeHandler(self.log))

    # -- identity ---------------------------------------------------------------------------------

    def open_session(self, former: Former | None) -> None:
        """Connect, settle the former identity, and register the new one."""
        self.lifeline.forget()
        conn = self.connect()
        self.session = Session(conn)
        # The parent must know the identity before anything can be claimed under it.
        self.events.send(Kind.HELLO, worker=self.session.worker_id.bytes)
        try:
            if former is not None:
                self.settle(former)
            self.register()
            self.looking = Looking(
                conn,
                self.session.worker_id,
                self.config,
                self.queues,
                self.registry,
                self.rng,
                self.bounds,
            )
        except psycopg.Error as error:
            self.session.give_up(error)
        self.events.send(Kind.REGISTERED, worker=self.session.worker_id.bytes)
        self.executor = self.make_executor()

    def make_executor(self) -> Executor:
        """What works in the new session; how short tasks are is remembered from the old one."""
        attempts = Attempts(
            self.session,
            self.judge,
            self.calling,
            lambda: self.lifeline.stopping,
            parse(self.config.dsn).get("password"),
            self._on_error,
        )
        return Executor(
            self.config,
            self.session,
            self.registry,
            attempts,
            self.judge,
            self.events,
            self.lifeline,
            self.handoff,
            self.pace,
            self.log,
            lambda thorough: self.session.conn.restore(thorough=thorough),
        )

    def connect(self) -> Tx:
        """A connection, however long that takes; Disconnected when told to stop meanwhile."""
        if self.seat.incarnation and not hasattr(self, "session"):
            self.events.send(Kind.HELLO)
        delay = RECONNECT_FIRST_SECONDS
        while True:
            try:
                return connect(
                    self.config.dsn,
                    f"worker {self.seat.slot}",
                    statement_seconds=self.config.claim_seconds,
                    factory=Tx,
                )
            except psycopg.Error as error:
                self.log.debug("no_connection", f"cannot connect: {type(error).__name__}")
            self.pause(delay * (0.5 + self.rng.random()))
            delay = min(RECONNECT_CAP_SECONDS, delay * 2)
            if self.lifeline.stopping:
                raise Stopping
            self.events.send(Kind.ALIVE)

    def register(self) -> None:
        """Write the worker's row."""
        identity = Identity(
            self.session.worker_id,
            self.runner_id,
            socket.gethostname(),
            os.getpid(),
            self.seat.slot,
            self.registry.types,
            list(self.queues) if self.queues is not None else None,
            self.config.lease_seconds,
        )
        register_worker(self.session.conn, identity)

    def settle(self, former: Former) -> None:
        """End what the lost identity held, and tell how."""
        conn = self.session.conn
        self.handoff.take_all()  # its tokens are of no use to anybody
        outcomes = former.settle(conn, lambda claim: self.judge.released(claim, started=False))
        for left in former.left:
            task, fence = left.claim.task_id, left.claim.fence
            self.events.send(Kind.FINISHED, task=task, fence=fence, flag=outcomes[task])

    def leave(self) -> None:
        """Close the connection; the parent has the row settled."""
        self._call_hooks(self.registry.hooks.on_worker_stop)
        with contextlib.suppress(psycopg.Error, AttributeError):
            self.session.conn.close()

    # -- work -------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Claim and run until told to stop; Disconnected when the connection is lost."""
        while not self.lifeline.stopping and not self.is_worn_out():
            if not self.lifeline.may_claim():
                self.pause(ALIVE_SECONDS)
                continue
            with self.permits() as permitted:
                rows = self.look(permitted) if permitted else []
                if rows:
                    self.work_through(rows)
                    continue
            self.idle(bool(permitted))
        self.guarded(self.executor.clear)

    def is_worn_out(self) -> bool:
        """Whether this process has done as much as it is to do, and is to be replaced."""
        most = self.config.max_tasks_per_child
        return most is not None and self.executor.started >= most

    def look(self, permitted: int) -> list[Row]:
        """Claim tasks if there are any. From before the claim on the lease is what we live by."""
        self.lifeline.hold()
        self.begun_looking = now()
        faults.point("before_claim")
        executor = self.executor
        try:
            rows = self.looking.claim(
                lambda name: min(permitted, executor.pace.wanted(name)),
                executor.done,
                executor.cleared,
                full=self.config.drain is not None,
            )
        except psycopg.Error as error:
            self.lifeline.let_go()
            if tells_of_server(error) or self.session.broken_by(error):
                self.session.give_up(error)
            self.put_off(error)
            return []
        if rows:
            faults.point("after_claim_commit")
        else:
            self.lifeline.let_go()
        return rows

    def put_off(self, error: psycopg.Error) -> None:
        """A claim failed though the connection is well: say why once, and try less and less often."""
        why = error_text(error)
        if why != self.claim_trouble:
            self.log.warning("claim_failed", f"cannot claim: {why}")
            self.trouble_seconds = 0.1
        self.claim_trouble = why
        self.pause(self.trouble_seconds * (0.5 + self.rng.random()))
        self.trouble_seconds = min(RECONNECT_CAP_SECONDS, self.trouble_seconds * 2)

    def work_through(self, rows: list[Row]) -> None:
        """Run what was claimed, unless a stop came with the claim."""
        self.events.send(Kind.CLAIMED, task=rows[0].task_id, fence=rows[0].fence, count=len(rows))
        faults.point("after_claimed")
        if self.was_woken:
            self.wake_next()
        try:
            self.guarded(lambda: self.executor.work_through(rows))
        finally:
            self.lifeline.let_go()

    def guarded(self, work: Callable[[], None]) -> None:
        """Do something whose statements are ours: when one fails, the identity is given up."""
        try:
            work()
        except psycopg.Error as error:
            self.session.give_up(error)

    def wake_next(self) -> None:
        """Who was woken and found work wakes the next: there may be more than one byte says."""
        self.was_woken = False
        with contextlib.suppress(BlockingIOError):
            os.write(self.ends.extra["wake_next"], b".")

    # -- waiting ----------------------------------------------------------------------------------

    def idle(self, looked: bool) -> None:
        """Nothing to do: say so, then wait for a wake-up, an order, or the jittered poll."""
        full = looked and self.looking.was_full
        at = self.begun_looking if looked else 0.0
        self.events.send(Kind.IDLE, at=at, flag=full)
        wake = self.ends.extra["wake"]
        until = now() + self.config.poll_seconds * IDLE_POLLS * (0.75 + self.rng.random() / 2)
        while (left := until - now()) > 0:
            ready = self.pause(min(left, ALIVE_SECONDS), wake)
            if wake in ready and self.take_wake_up(wake):
                break
            if self.lifeline.nudge in ready:
                break
            self.events.send(Kind.ALIVE)

    def take_wake_up(self, wake: int) -> bool:
        """One byte, one worker: another may have been faster."""
        try:
            os.read(wake, 1)
        except BlockingIOError:
            return False
        self.looking.woken = self.was_woken = True
        return True

    def pause(self, seconds: float, *fds: int) -> list[int]:
        """Wait for an order, or one of these; what turned readable."""
        ready = wait_readable([self.lifeline.nudge, *fds], seconds)
        self.lifeline.clear_nudges()
        if not self.lifeline.may_claim():
            self.events.send(Kind.ALIVE)
        return ready

    @contextlib.contextmanager
    def permits(self) -> Iterator[int]:
        """How many handlers may be started, where a drain counts them; the rest is given back."""
        if self.permit is None:
            yield MOST
            return
        taken, before = self.permit.take(self.seat.slot), self.executor.started
        try:
            yield taken
        finally:
            used = self.executor.started - before
            self.permit.give_back(self.seat.slot, taken - used)


class Stopping(Disconnected):
    """Told to stop while there was no connection."""
