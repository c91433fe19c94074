"""The worker: claims one task at a time and runs its handler, under a lease that its parent renews."""

import contextlib
import json
import logging
import os
import random
import socket
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

import psycopg

from .. import app, faults, kernel
from ..clock import now
from ..config import ALIVE_SECONDS, FleetConfig
from ..errors import RunnerError
from ..handling.attempt import Attempts
from ..handling.interrupts import Interrupts
from ..handling.lifeline import Lifeline, wait_readable
from ..handling.looking import Looking
from ..handling.printing import Printed
from ..handling.restore import ProcessState
from ..handling.session import Disconnected, Left, Session, settle_former
from ..judge import Claim, Judge, Verdict
from ..logpipe import LogPipe, PipeHandler
from ..registry import Handler, Registry
from ..store.claim import Row
from ..store.connect import connect, parse, tells_of_server
from ..store.tx import Tx
from ..store.workers import Identity, register_worker
from ..supervisor.role import Ends, Seat
from ..task import Task
from ..text import error_text
from ..wire import EventWriter, Kind, Outcome

RECONNECT_FIRST_SECONDS, RECONNECT_CAP_SECONDS = 0.1, 5.0
IDLE_POLLS = 10  # an idle worker looks of its own this many times less often than the maintainer


class Worker:
    """One worker process, from its boot to its last claim."""

    def __init__(
        self,
        config: FleetConfig,
        runner_id: UUID,
        seat: Seat,
        ends: Ends,
        since: datetime | None = None,
    ) -> None:
        self.config = config
        self.runner_id = runner_id
        self.seat = seat
        self.ends = ends
        self.since = since  # a drain leaves what failed after this, on the database's clock
        self.events = EventWriter(ends.events, seat.incarnation)
        self.log = LogPipe(ends.log, role="worker", slot=seat.slot, pid=os.getpid())
        self.lifeline = Lifeline(ends.control, config.usable, timer="no-timer" not in config.unsafe)
        self.interrupts = Interrupts()
        self.rng = random.Random()
        self.judge = Judge(config.backoff, self.rng)
        self.queues = config.queues_of_slot(seat.slot)
        self.started = 0
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
        former: tuple[UUID, Left | None] | None = None
        while not self.lifeline.stopping:
            try:
                self.open_session(former)
                former = None
                self.serve()
            except Disconnected as lost:
                # A former identity that is not settled yet stays the one to settle.
                former = former or (self.session.worker_id, lost.left)
        self.leave(former)
        return 0

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
        self.interrupts.install()  # the app may have taken it
        self.state = ProcessState()
        return None

    def _log_to_pipe(self) -> None:
        logger = logging.getLogger("runner.task")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(PipeHandler(self.log))

    # -- identity ---------------------------------------------------------------------------------

    def open_session(self, former: tuple[UUID, Left | None] | None) -> None:
        """Connect, settle the former identity, and register the new one."""
        self.lifeline.forget()
        # The parent must know the identity before anything can be claimed under it.
        conn = self.connect()
        self.session = Session(conn)
        self.events.send(Kind.HELLO, worker=self.session.worker_id.bytes)
        try:
            if former is not None:
                self.settle_former(*former)
            self.register()
        except psycopg.Error as error:
            self.session.give_up(error, former[1] if former else None)
        self.events.send(Kind.REGISTERED, worker=self.session.worker_id.bytes)
        self.looking = Looking(
            conn,
            self.session.worker_id,
            self.config,
            self.queues,
            self.registry,
            self.rng,
            self.since,
        )
        self.attempts = Attempts(
            self.session,
            self.judge,
            self.interrupts,
            self.restore,
            lambda: self.lifeline.stopping,
            parse(self.config.dsn).get("password"),
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

    def settle_former(self, former: UUID, left: Left | None) -> None:
        """End what the lost identity held, and tell how."""
        outcome = settle_former(
            self.session.conn, former, left, lambda claim: self.judge.released(claim, started=False)
        )
        if left is not None:
            self.finished(left.claim, outcome)

    def leave(self, former: tuple[UUID, Left | None] | None) -> None:
        """Take the row along; what cannot be written is settled by the parent."""
        with contextlib.suppress(psycopg.Error, AttributeError):
            self.session.conn.close()

    # -- work -------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Claim and run until told to stop; Disconnected when the connection is lost."""
        while not self.lifeline.stopping:
            if not self.lifeline.may_claim():
                self.pause(ALIVE_SECONDS)
                continue
            with self.permit() as permitted:
                row = self.look() if permitted else None
                if row is not None:
                    self.work_on(row)
                    continue
            self.idle(permitted)

    def look(self) -> Row | None:
        """Claim a task if there is one. The lease is what we live by from before the claim on."""
        self.lifeline.hold()
        self.begun_looking = now()
        faults.point("before_claim")
        try:
            row = self.looking.claim(full=self.config.drain is not None)
        except psycopg.Error as error:
            self.lifeline.let_go()
            if tells_of_server(error) or self.session.broken_by(error):
                self.session.give_up(error)
            self.put_off(error)
            return None
        if row is None:
            self.lifeline.let_go()
        else:
            faults.point("after_claim_commit")
        return row

    def put_off(self, error: psycopg.Error) -> None:
        """A claim failed though the connection is well: say why once, and try less and less often."""
        why = error_text(error)
        if why != self.claim_trouble:
            self.log.warning("claim_failed", f"cannot claim: {why}")
            self.trouble_seconds = 0.1
        self.claim_trouble = why
        self.pause(self.trouble_seconds * (0.5 + self.rng.random()))
        self.trouble_seconds = min(RECONNECT_CAP_SECONDS, self.trouble_seconds * 2)

    def work_on(self, row: Row) -> None:
        """Run the handler of a claimed task, unless a stop came with the claim."""
        claim = Claim(row.task_id, row.fence, row.attempt, row.max_attempts, row.released, row.solo)
        self.events.send(Kind.CLAIMED, task=row.task_id, fence=row.fence)
        faults.point("after_claimed")
        try:
            if self.lifeline.stopping:
                self.session.write(claim, self.judge.released(claim, started=False))
                return
            self.begin(row, claim)
        finally:
            self.lifeline.let_go()

    def begin(self, row: Row, claim: Claim) -> None:
        """From STARTED to FINISHED."""
        handler = self.registry[row.task_type]
        task = self.task_of(row, handler)
        self.permit_used = True
        self.started += 1
        self.events.send(Kind.STARTED, task=task.id, fence=task.fence, at=task.limit_at or 0.0)
        for stream in self.printed:
            stream.task = task.id
        faults.point("after_started")
        began = time.monotonic()
        outcome, verdict = self.attempts.run(
            handler,
            task,
            claim,
            lambda: self.events.send(Kind.ENDING, task=task.id, fence=task.fence),
        )
        self.finished(claim, outcome)
        self.tell(task, outcome, verdict, time.monotonic() - began)
        self.tidy_session()

    def task_of(self, row: Row, handler: Handler) -> Task:
        """What the handler is given."""
        limit = handler.timeout if handler.timeout is not None else self.config.timeout_seconds
        fields = {"task": row.task_id, "type": row.task_type, "attempt": row.attempt}
        return Task(
            row.task_id,
            row.task_type,
            row.params,
            row.queue,
            row.attempt,
            row.max_attempts,
            row.idempotency_key,
            row.fence,
            row.created_at,
            now() + limit if limit else None,
            logging.LoggerAdapter(logging.getLogger("runner.task"), fields),
            lambda done, total: self.events.send(
                Kind.PROGRESS, task=row.task_id, fence=total, count=done
            ),
        )

    def finished(self, claim: Claim, outcome: Outcome) -> None:
        """Tell the parent that the claim is over."""
        self.events.send(Kind.FINISHED, task=claim.task_id, fence=claim.fence, flag=outcome)

    def tell(self, task: Task, outcome: Outcome, verdict: Verdict | None, seconds: float) -> None:
        """Log how it went; people hear only of what people must fix."""
        fields = {
            "task": task.id,
            "type": task.type,
            "queue": task.queue,
            "attempt": task.attempt,
            "seconds": round(seconds, 3),
        }
        what = f"{task.type} {task.id}"
        if outcome is Outcome.OK:
            self.log.info("done", f"{what} done", **fields)
        elif outcome is Outcome.LOST:
            self.log.warning("lost_lease", f"{what} lost lease: nothing was written", **fields)
        elif verdict is not None:
            fields |= {"cause": verdict.cause, "error": verdict.error}
            why = verdict.error or verdict.cause
            if outcome is Outcome.DEAD:
                self.log.error("dead", f"{what} is dead after {task.attempt}: {why}", **fields)
            else:
                word = outcome.name.lower()
                self.log.info(word, f"{what} {word}: {why}", **fields)

    def tidy_session(self) -> None:
        """Undo what the handler left in the database session."""
        try:
            self.session.conn.restore(thorough=self.started % 100 == 0)
        except psycopg.Error as error:
            self.session.give_up(error)

    def restore(self) -> None:
        """Undo what the handler left in the process; called before its attempt is judged."""
        self.state.restore()
        for stream in self.printed:
            stream.end()
        if killed := self.state.kill_descendants():
            self.log.info("descendants", f"killed {killed} processes that a task left running")

    # -- waiting ----------------------------------------------------------------------------------

    def idle(self, looked: bool) -> None:
        """Nothing to do: say so, then wait for a wake-up, an order, or the jittered poll."""
        full = looked and self.looking.was_full
        at = self.begun_looking if looked else 0.0
        self.events.send(Kind.IDLE, at=at, flag=full)
        seconds = self.config.poll_seconds * IDLE_POLLS * (0.75 + self.rng.random() / 2)
        wake = self.ends.extra["wake"]
        if wake in self.pause(min(seconds, ALIVE_SECONDS), wake):
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 1)  # one byte, one worker: another may have been faster
            self.looking.woken = True

    def pause(self, seconds: float, *fds: int) -> list[int]:
        """Wait for an order, or one of these; what turned readable."""
        ready = wait_readable([self.lifeline.nudge, *fds], seconds)
        self.lifeline.clear_nudges()
        if not self.lifeline.may_claim():
            self.events.send(Kind.ALIVE)
        return ready

    @contextlib.contextmanager
    def permit(self) -> Iterator[bool]:
        """A permit to start a handler where a drain counts them; given back when none was started."""
        pipe = self.ends.extra.get("permits")
        if pipe is None:
            yield True
            return
        try:
            taken = os.read(pipe, 1)
        except BlockingIOError:
            yield False
            return
        self.permit_used = False
        try:
            yield True
        finally:
            if not self.permit_used:
                os.write(self.ends.extra["permits_back"], taken)


class Stopping(Disconnected):
    """Told to stop while there was no connection."""
