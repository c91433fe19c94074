"""The worker: claims tasks and runs their handlers, under a lease that its parent renews."""

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from uuid import UUID

import psycopg

from .. import faults, kernel, postmortem
from ..clock import now
from ..config import ALIVE_SECONDS, FleetConfig
from ..errors import RunnerError
from ..handling import boot
from ..handling.attempt import Attempts
from ..handling.executor import Executor
from ..handling.handoff import Handoff
from ..handling.idling import Idling
from ..handling.interrupts import Interrupts
from ..handling.joining import Joining, Member
from ..handling.lifeline import Lifeline
from ..handling.pace import MOST, Pace
from ..handling.session import Disconnected
from ..handling.telling import Telling
from ..handling.wear import Wear
from ..judge import Judge
from ..logpipe import LogPipe
from ..permits import Permits
from ..seat import Ends, Seat
from ..store.claim import NO_BOUNDS, Bounds, Row
from ..store.connect import password, tells_of_server
from ..text import error_text
from ..typenames import TypeNames
from ..wire import EventWriter, Kind

RECONNECT_CAP_SECONDS = 5.0


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
        permits: Permits | None = None,
    ) -> None:
        self.config = config
        self.runner_id = runner_id
        self.seat = seat
        self.ends = ends
        self.names = names
        self.bounds = bounds
        self.permits = permits
        self.events = EventWriter(ends.events, seat.incarnation)
        self.log = LogPipe(
            ends.log, config.log_level, role="worker", slot=seat.slot, pid=os.getpid()
        )
        self.lifeline = Lifeline(ends.control, config.usable, timer="no-timer" not in config.unsafe)
        self.interrupts = Interrupts()
        self.rng = random.Random()
        self.judge = Judge(config.backoff, self.rng)
        self.handoff = Handoff(ends.extra["tokens"], ends.extra["tokens_back"])
        self.pace = Pace()
        self.telling = Telling(config, self.events, self.log)
        self.wear = Wear(config, self.telling, self.events, self.log)
        wakes = ends.extra["wake"], ends.extra["wake_next"]
        self.idling = Idling(config, self.events, self.lifeline, self.rng, *wakes)
        self.claim_trouble = ""
        self.trouble_seconds = 0.1
        self.executor: Executor
        self.joined = False  # under any identity yet
        self.in_hand = 0  # permits

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
        self.joining = self.make_joining()
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
        while not self.lifeline.stopping:
            try:
                if (member := self.joining.join()) is not None:
                    self.take_up(member)
                    self.serve()
            except Disconnected as how:
                self.joining.lost(how, self.executor.done if self.joined else ())
            finally:
                self.idling.hand_on()  # if it has not come to look
        self.joining.leave()

    def leave(self) -> None:
        """Close the connection; the parent has the row settled."""
        self.hooks.stop()
        with contextlib.suppress(psycopg.Error, AttributeError):
            self.session.conn.close()

    def make_joining(self) -> Joining:
        """What joins the fleet for us."""
        return Joining(
            self.config,
            self.runner_id,
            self.seat,
            self.events,
            self.log,
            self.lifeline,
            self.handoff,
            self.judge,
            self.rng,
            self.registry,
            self.bounds,
            self.wait_to_connect,
        )

    def wait_to_connect(self, seconds: float) -> bool:
        """Wait before the next try; False when told to stop."""
        self.idling.pause(seconds)
        self.events.send(Kind.ALIVE)
        return not self.lifeline.stopping

    def take_up(self, member: Member) -> None:
        """Work under this identity from now on; how short tasks are is remembered."""
        self.session, self.looking = member.session, member.looking
        attempts = Attempts(
            self.session,
            self.judge,
            self.calling,
            lambda: self.lifeline.stopping,
            password(self.config.dsn),
            self.hooks.error,
        )
        self.executor = Executor(
            self.session,
            self.registry,
            attempts,
            self.telling,
            self.handoff,
            self.pace,
            lambda: self.lifeline.stopping,
        )
        self.joined = True

    # -- work -------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Claim and run until told to stop; Disconnected when the connection is lost."""
        # Jittered, so that the workers of a fleet do not all connect anew at once.
        expires_at = now() + self.config.connection_seconds * (0.9 + 0.2 * self.rng.random())
        while not self.lifeline.stopping:
            self.wear.look()
            if not self.wear.tasks_left():
                self.await_heir()
                continue
            if now() >= expires_at:
                self.replace_connection()
            if not self.lifeline.may_claim():
                # Its renewals fail: what it took now it might have to give up before it is done.
                self.idling.hand_on()
                self.idling.pause(ALIVE_SECONDS)
                continue
            with self.permitted() as permitted:
                rows = self.look(permitted) if permitted else []
                if rows:
                    self.keep_permits(len(rows))
                    self.work_through(rows)
                    continue
            # Without permits: they are for whoever can use them while this one waits.
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
        self.idling.pause(ALIVE_SECONDS)
        self.events.send(Kind.ALIVE)

    def look(self, permitted: int) -> list[Row]:
        """Claim tasks if there are any. Before we hear of them the lease is what we live by."""
        self.begun_looking = now()
        faults.point("before_claim")
        try:
            rows = self.looking.claim(
                self.pace.up_to(min(permitted, self.wear.tasks_left())),
                self.executor.done,
                self.executor.cleared,
                full=self.config.drain is not None,
                sent=self.lifeline.hold,  # while the server is at it
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
        self.guarded(lambda: self.session.conn.restore(thorough=True))  # a handler may have hurt it
        why = error_text(error)
        if why != self.claim_trouble:
            self.log.warning("claim_failed", f"cannot claim: {why}")
            self.trouble_seconds = 0.1
        self.claim_trouble = why
        self.idling.pause(self.trouble_seconds * (0.5 + self.rng.random()))
        self.trouble_seconds = min(RECONNECT_CAP_SECONDS, self.trouble_seconds * 2)

    def work_through(self, rows: list[Row]) -> None:
        """Run what was claimed, unless a stop came with the claim."""
        self.events.defer(Kind.CLAIMED, task=rows[0].task_id, fence=rows[0].fence, count=len(rows))
        faults.point("after_claimed")
        self.idling.found(plenty=len(rows) >= self.pace.wanted(rows[0].task_type))
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

    def idle(self, looked: bool) -> None:
        """Nothing to do: wait until there may be something."""
        if self.permits is None:
            self.looking.be_ready(self.pace.up_to(self.wear.tasks_left()))
        full = looked and self.looking.was_full
        at = self.begun_looking if looked else 0.0
        more = [] if looked else [self.ends.extra["permits"]]
        before = self.looking.lap_at if looked else float("inf")
        if self.idling.idle(at, full=full, more=more, before=before):
            self.looking.woken = True

    @contextlib.contextmanager
    def permitted(self) -> Iterator[int]:
        """How many handlers may be started, where a drain counts them; the rest is given back."""
        if self.permits is None:
            yield MOST
            return
        before = self.telling.started
        self.in_hand = self.permits.take(self.seat.hand)
        try:
            yield self.in_hand
        finally:
            used = self.telling.started - before
            self.permits.give_back(self.seat.hand, self.in_hand - used)

    def keep_permits(self, count: int) -> None:
        """What was claimed needs so many: the others are for others while it runs."""
        if self.permits is not None:
            self.permits.give_back(self.seat.hand, self.in_hand - count, kept=count)
            self.in_hand = count
