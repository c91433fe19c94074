"""The renewer: one connection that extends leases and settles dead workers, when the parent asks."""

import random
import select
import socket
from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

import psycopg

from .. import faults
from ..clock import now
from ..config import ALIVE_SECONDS, FleetConfig
from ..errors import ConfigError
from ..judge import Claim, Judge, Verdict
from ..logpipe import LogPipe
from ..renewing import Requests, Round
from ..saying import say
from ..seat import Ends, Seat
from ..store import ending, workers
from ..store.connect import as_runner_error, connect, knock
from ..wire import EventWriter, HandBack, How, Kind, Outcome, Renewal, Settle, unpack_request

RETRY_FIRST_SECONDS, RETRY_CAP_SECONDS = 0.1, 2.0
LOCKED = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.QueryCanceled,
    psycopg.errors.DeadlockDetected,
)


class Renewer:
    """Serves one parent. Only its newest renewal request counts; settles are done one by one."""

    def __init__(self, config: FleetConfig, requests: int, seat: Seat, ends: Ends) -> None:
        self.config = config
        self.requests = socket.socket(fileno=requests)
        self.requests.setblocking(False)
        self.control = ends.control
        self.events = EventWriter(ends.events, seat.incarnation)
        self.log = LogPipe(ends.log, role="renewer")
        self.rng = random.Random()
        self.judge = Judge(config.backoff, self.rng)
        self.conn: psycopg.Connection[object] | None = None
        self.spoken_to = False  # by the server, unasked
        self.asked = Requests()
        self.expires_at = float("inf")
        self.away_since: float | None = None
        self.refused = False  # in this outage
        self.retry_seconds = RETRY_FIRST_SECONDS

    def run(self) -> int:
        """Answer requests until the parent says stop, or is gone."""
        self.attend()
        while not self.told_to_stop():
            self.read_requests()
            self.attend()
            self.events.send(Kind.ALIVE)
        return 0

    def told_to_stop(self) -> bool:
        """Wait for something to do; True when the parent has said or done something on control: the
        renewer is sent nothing there but its stop."""
        if self.asked or self.conn is None:
            seconds = self.retry_seconds * (0.5 + self.rng.random())
        else:
            seconds = ALIVE_SECONDS
        # Where no worker is registered any more nobody asks for anything, and an outage would be told by
        # nobody: so the session's end is looked for.
        link = [self.conn.fileno()] if self.conn is not None and not self.conn.closed else []
        fds: list[int] = [self.control, self.requests.fileno(), *link]
        ready, _, _ = select.select(fds, [], [], seconds)
        self.spoken_to = not set(link).isdisjoint(ready)
        return self.control in ready

    def read_requests(self) -> None:
        """Take in what has been asked meanwhile."""
        while True:
            try:
                data = self.requests.recv(1 << 18)
            except BlockingIOError:
                return
            if not data:
                return
            self.asked.take(unpack_request(data))

    def attend(self) -> None:
        """Do what is asked; what a lost connection leaves undone stays for the next time."""
        if self.conn is not None and now() >= self.expires_at:
            self.conn.close()
            self.conn = None
        try:
            if self.conn is None:
                self.conn = connect(
                    self.config.dsn, "renewer", statement_seconds=self.config.renewal_seconds
                )
                self.expires_at = now() + self.config.connection_seconds
                self.back()
            elif self.spoken_to:
                knock(self.conn)
            self.do(self.conn, self.asked)
        except psycopg.Error as error:
            self.away(error)
        else:
            self.retry_seconds = RETRY_FIRST_SECONDS

    def do(self, conn: psycopg.Connection[object], asked: Requests) -> None:
        """Renewing first: everything else can wait for it."""
        if asked.newest is not None:
            self.renew(conn, *asked.newest)
            asked.newest = None
        while asked.hand_backs:
            self.hand_back(conn, asked.hand_backs[0])
            del asked.hand_backs[0]  # not before it is done: a lost connection leaves it to be done
        for settle in list(asked.settles.values()):
            self.settle(conn, settle)

    def back(self) -> None:
        """The connection is there, for the first time or again."""
        if self.away_since is not None:
            seconds = now() - self.away_since
            self.log.warning("database_back", f"database is back after {seconds:.1f} s")
        self.away_since, self.refused = None, False
        self.events.send(Kind.HELLO)

    def away(self, error: psycopg.Error) -> None:
        """One line for an outage, however long it lasts, and one when the database is there but will
        not have us: only a person can mend that. This is the role that tells."""
        self.retry_seconds = min(RETRY_CAP_SECONDS, self.retry_seconds * 2)
        if self.conn is not None and not self.conn.closed:
            self.conn.close()
        self.conn = None
        if self.away_since is None:
            self.away_since = now()
            what = " ".join(str(error).split())
            self.log.warning("database_away", f"database is away, trying again: {what}")
        failure = as_runner_error(error, self.config.dsn)
        if isinstance(failure, ConfigError) and not self.refused:
            self.refused = True
            self.log.error("database_refuses", f"{failure}: trying again")

    def renew(
        self, conn: psycopg.Connection[object], asked_at: float, renewals: list[Renewal]
    ) -> None:
        """Extend the leases asked for; tell which are renewed or lost, and which claims are."""
        faults.point("renew")
        if not renewals:
            knock(conn)
        current = Round(renewals, self.config.usable)
        while current.goes_on():
            asked = current.begin(now())
            fresh = [worker.bytes for worker in workers.renew(conn, asked)]
            current.took(fresh)
            for worker in fresh:
                self.events.send(Kind.RENEWED, worker=worker, at=current.deadline)
            if current.waiting:
                for worker in current.lost(self.existing(conn, current.waiting)):
                    self.events.send(Kind.LOST, worker=worker)
        for one in workers.taken(conn, [one for one in current.renewed if one.task]):
            self.events.send(Kind.TAKEN, worker=one.worker, task=one.task, fence=one.fence)
        self.events.send(Kind.ANSWERED, at=asked_at)

    @staticmethod
    def existing(conn: psycopg.Connection[object], ids: Iterable[bytes]) -> set[bytes]:
        """Which of these workers still have a row."""
        found = workers.existing(conn, [UUID(bytes=one) for one in ids])
        return {worker.bytes for worker in found}

    def hand_back(self, conn: psycopg.Connection[object], back: HandBack) -> None:
        """Make ready what a busy worker has not begun, and delete what it is through with."""
        faults.point("before_hand_back")
        worker = UUID(bytes=back.worker)
        if back.done:
            ending.delete_done(conn, worker, back.done)
        if back.tokens:
            ending.hand_back(conn, worker, back.tokens)
        self.events.send(Kind.HANDED, count=back.number)

    def settle(self, conn: psycopg.Connection[object], settle: Settle) -> None:
        """End what a dead worker held; a row that is locked still is tried again."""
        faults.point("before_settle")
        worker = UUID(bytes=settle.worker)
        ending.terminate_backend(conn, worker)
        try:
            ended = ending.settle(
                conn, worker, lambda claim: self.verdict(claim, settle), done=settle.done
            )
        except LOCKED:
            return
        faults.point("after_settle")
        del self.asked.settles[settle.worker]
        outcome, sent = self.outcome_of(settle, ended), self.outcome_of_sent(settle, ended)
        self.events.send(
            Kind.SETTLED, worker=settle.worker, task=settle.task, flag=outcome, count=sent
        )
        for one in ended or ():
            self.tell(one)

    def verdict(self, claim: Claim, settle: Settle) -> Verdict:
        """What becomes of a claim of a dead worker."""
        verdict = self.judge.settled(claim, settle.how, settle.cause, settle.begun)
        if claim.token != settle.begun:
            return verdict
        return replace(verdict, post_mortem=settle.post_mortem)

    @staticmethod
    def outcome_of(settle: Settle, ended: list[ending.Ended] | None) -> Outcome:
        """How the task that it had begun came out."""
        if not settle.task or ended is None:
            return Outcome.NONE
        for one in ended:
            if one.task_id == settle.task:
                return one.verdict.outcome
        # The worker's row was still there, so nobody else ended this claim: it was completed, and
        # death came before the worker could say so.
        return Outcome.NONE if settle.how is How.LEASE_LOST else Outcome.OK

    @staticmethod
    def outcome_of_sent(settle: Settle, ended: list[ending.Ended] | None) -> Outcome:
        """How the task came out whose COMMIT it had sent before it began that one."""
        if not settle.sent or ended is None:
            return Outcome.NONE
        found = (one.verdict.outcome for one in ended if one.task_id == settle.sent)
        return next(found, Outcome.OK)

    def tell(self, one: ending.Ended) -> None:
        """Log what was ended on a worker's behalf."""
        verdict = one.verdict
        self.log.emit(
            *say(one.task_type, one.task_id, verdict.outcome, verdict.attempt, verdict.cause),
            task=one.task_id,
            type=one.task_type,
            cause=verdict.cause,
            attempt=verdict.attempt,
        )
