"""The worker: claims tasks and runs their handlers, under a lease that its parent renews."""

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import psycopg

from .. import faults, kernel, postmortem
from ..clock import now
from ..config import ALIVE_SECONDS, FleetConfig
from ..errors import RunnerError
from ..handling import boot, joining
from ..handling.attempt import Attempts
from ..handling.executor import Executor
from ..handling.handoff import Handoff
from ..handling.interrupts import Interrupts
from ..handling.lifeline import Lifeline, wait_readable
from ..handling.looking import Looking
from ..handling.pace import MOST, Pace
from ..handling.session import Disconnected, Former, Session
from ..handling.telling import Telling
from ..handling.wear import Wear
from ..judge import Judge
from ..logpipe import LogPipe
from ..permits import Permits
from ..saying import say_lost
from ..seat import Ends, Seat
from ..store.claim import NO_BOUNDS, Bounds, Row
from ..store.connect import password, tells_of_server
from ..text import error_text
from ..typenames import TypeNames
from ..wire import EventWriter, Kind, Outcome

RECONNECT_CAP_SECONDS = 5.0
IDLE_POLLS = 30  # an idle worker looks of its own this many times less often than the maintainer


class Worker:
    """One worker process, from its boot to its last claim."""

    def __init__(
        self,
        config: FleetConfig,
        runner_id: UUID,
        seat: Seat,
        ends: Ends,
        names: TypeNames,
        bounds: Bounds = NO_BOUNDS,
        permit: Permits | None = None,
    ) -> None:
        self.config = config
        self.runner_id = runner_id
        self.seat = seat
        self.ends = ends
        self.names = names
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
        self.telling = Telling(config, self.events, self.log)
        self.wear = Wear(config, self.telling, self.events, self.log)
        self.was_woken = False
        self.claim_trouble = ""
        self.trouble_seconds = 0.1
        self.session: Session
        self.executor: Executor
        self.joined = False  # under any identity yet

    # -- the story --------------------------------------------------------------------------------

    def run(self) -> int:
        """Boot, then serve under one identity after the other until told to stop."""
        kernel.become_subreaper()
        postmortem.be_ready(self.ends.extra["stack"])
        self.interrupts.install()
        printed = boot.capture_prints(self.log)
        self.lifeline.start()
        try:
            self.registry = boot.load(self.config)
        except RunnerError as error:
            return self.refuse(error)
        self.tell_types()
        self.hooks = boot.SafeHooks(self.registry, self.log)
        self.hooks.start()
        self.calling = boot.prepare(self.registry, self.log, self.interrupts, printed)
        self.serve_until_stopped()
        self.leave()
        return 0

    def refuse(self, error: RunnerError) -> int:
        """The app does not load, and a restart will not change that."""
        self.log.error("fatal", str(error), hint=error.hint, code=error.exit_code)
        self.events.send(Kind.REFUSED, flag=error.exit_code)
        return error.exit_code

    def tell_types(self) -> None:
        """Nobody else in the fleet loads the app: counts and summaries know the names by this."""
        if not len(self.registry) and self.seat.slot == 0:
            self.log.warning("no_handlers", f"app {self.config.app} registers no handlers")
        self.names.tell(self.registry.types)

    def serve_until_stopped(self) -> None:
        """Under one identity after the other; one that is lost is settled under the next."""
        former: Former | None = None
        while not self.lifeline.stopping:
            try:
                if self.open_session(former):
                    former = None
                    self.serve()
            except Disconnected as lost:
                # One that is not settled yet stays the one to settle.
                done = tuple(self.executor.done) if self.joined else ()
                former = former or Former(self.session.worker_id, lost.left, done)
        if former is not None:
            # The parent must not take an end in the middle of a task for the handler's.
            self.events.send(Kind.HELLO, worker=uuid4().bytes)

    def leave(self) -> None:
        """Close the connection; the parent has the row settled."""
        self.hooks.stop()
        with contextlib.suppress(psycopg.Error, AttributeError):
            self.session.conn.close()

    # -- identity ---------------------------------------------------------------------------------

    def open_session(self, former: Former | None) -> bool:
        """Connect, settle the former identity, and register the new one; False when told to stop."""
        self.lifeline.forget()
        # The parent must know the identity before anything can be claimed under it; and that nothing is
        # held under the former one any more, however long the database is away.
        worker_id = uuid4()
        self.events.send(Kind.HELLO, worker=worker_id.bytes)
        conn = joining.connection(self.config, self.seat, self.log, self.rng, self.wait_to_connect)
        if conn is None:
            return False
        self.session = Session(conn, worker_id)
        try:
            if former is not None:
                self.settle(former)
            types, slot = self.registry.types, self.seat.slot
            joining.register(conn, worker_id, self.runner_id, self.config, slot, types)
            faults.point("before_registered")
            self.looking = Looking(
                conn, worker_id, self.config, self.queues, self.registry, self.rng, self.bounds
            )
        except psycopg.Error as error:
            self.session.give_up(error)
        self.events.send(Kind.REGISTERED, worker=worker_id.bytes)
        self.executor = self.make_executor()
        self.joined = True
        return True

    def wait_to_connect(self, seconds: float) -> bool:
        """Wait before the next try; False when told to stop."""
        self.pause(seconds)
        self.events.send(Kind.ALIVE)
        return not self.lifeline.stopping

    def make_executor(self) -> Executor:
        """What works in the new session; how short tasks are is remembered from the old one."""
        attempts = Attempts(
            self.session,
            self.judge,
            self.calling,
            lambda: self.lifeline.stopping,
            password(self.config.dsn),
            self.hooks.error,
        )
        return Executor(
            self.session,
            self.registry,
            attempts,
            self.telling,
            self.handoff,
            self.pace,
            lambda: self.lifeline.stopping,
        )

    def settle(self, former: Former) -> None:
        """End what the lost identity held, and tell how."""
        self.handoff.take_all()  # its tokens are of no use to anybody
        conn = self.session.conn
        outcomes = former.settle(conn, lambda claim: self.judge.released(claim, started=False))
        for left in former.left:
            task, fence = left.claim.task_id, left.claim.fence
            self.events.send(Kind.FINISHED, task=task, fence=fence, flag=outcomes[task])
            if outcomes[task] is Outcome.LOST:
                self.log.warning("lost_lease", say_lost(task), task=task)

    # -- work -------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Claim and run until told to stop; Disconnected when the connection is lost."""
        expires_at = now() + self.config.connection_seconds * (0.9 + 0.2 * self.rng.random())
        while not self.lifeline.stopping:
            self.wear.look()
            if not self.wear.tasks_left():
                self.await_heir()
                continue
            if now() >= expires_at:
                self.replace_connection()
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

    def replace_connection(self) -> None:
        """An old connection is replaced between tasks, and with it the identity."""
        self.guarded(self.executor.clear)
        self.session.conn.close()
        raise Disconnected

    def await_heir(self) -> None:
        """Begin nothing more; the parent says stop when another one is ready."""
        self.guarded(self.executor.clear)
        self.pause(ALIVE_SECONDS)
        self.events.send(Kind.ALIVE)

    def look(self, permitted: int) -> list[Row]:
        """Claim tasks if there are any. From before the claim on the lease is what we live by."""
        self.lifeline.hold()
        self.begun_looking = now()
        faults.point("before_claim")
        executor = self.executor
        most = min(permitted, self.wear.tasks_left())
        try:
            rows = self.looking.claim(
                lambda name: min(most, executor.pace.wanted(name)),
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
            self.wake_next(full=len(rows) >= self.executor.pace.wanted(rows[0].task_type))
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

    def wake_next(self, *, full: bool) -> None:
        """Who was woken and found as much as it wanted wakes the next: there may be more than the
        bytes say."""
        self.was_woken = False
        if not full:
            return
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
        taken, before = self.permit.take(self.seat.hand), self.telling.started
        try:
            yield taken
        finally:
            used = self.telling.started - before
            self.permit.give_back(self.seat.hand, taken - used)
