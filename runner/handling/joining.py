"""How a worker joins its fleet: under one identity after the other, each with a connection, a worker id
and a row of its own.

An identity ends with its connection: what became of a statement under way is then known to the server
alone. So whatever it held is settled under the next one, as if by another process.
"""

import os
import random
import socket
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from uuid import UUID, uuid4

import psycopg

from .. import faults
from ..config import FleetConfig
from ..judge import Judge
from ..logpipe import LogPipe
from ..registry import Registry
from ..saying import say_lost
from ..seat import Seat
from ..store.claim import Bounds
from ..store.connect import connect, tells_of_server
from ..store.sending import SETTINGS
from ..store.tx import Tx
from ..store.workers import Identity, register_worker
from ..text import error_text
from ..wire import EventWriter, Kind, Outcome, Token
from .handoff import Handoff
from .lifeline import Lifeline
from .looking import Looking
from .session import Disconnected, Former, Session

FIRST_SECONDS, CAP_SECONDS = 0.1, 5.0
TOLD_AT = 3  # tries: the first may meet what the session before had locked


@dataclass(frozen=True)
class Member:
    """An identity that is registered: what to work with under it."""

    session: Session
    looking: Looking


@dataclass
class Joining:
    """Joins, and joins again when the connection was lost or has become too old."""

    config: FleetConfig
    runner_id: UUID
    seat: Seat
    events: EventWriter
    log: LogPipe
    lifeline: Lifeline
    handoff: Handoff
    judge: Judge
    rng: random.Random
    registry: Registry
    bounds: Bounds
    wait: Callable[[float], bool]  # so many seconds; False when told to stop
    former: Former | None = None  # an identity that was lost, and is not settled yet
    refused: Iterator[float] | None = (
        None  # pauses: the server lets us in, but does not write us down
    )
    refusals: int = 0  # one after the other

    def join(self) -> Member | None:
        """Connect, settle the former identity, and register a new one; None when told to stop.

        Disconnected when the connection is lost on the way.
        """
        self.lifeline.forget()
        # The parent must know the identity before anything can be claimed under it; and that nothing is
        # held under the former one any more, however long the database is away.
        worker_id = uuid4()
        self.events.send(Kind.HELLO, worker=worker_id.bytes)
        if self.refused is not None and not self.wait(next(self.refused)):
            return None
        conn = connection(self.config, self.seat, self.log, self.rng, self.wait)
        if conn is None:
            return None
        self.session = Session(conn, worker_id)
        try:
            if self.former is not None:
                self._settle(self.former, conn)
            queues = self.config.queues_of_slot(self.seat.slot)
            types, slot = self.registry.types, self.seat.slot
            register(conn, worker_id, self.runner_id, self.config, slot, types)
            faults.point("before_registered")
            looking = Looking(
                conn, worker_id, self.config, queues, self.registry, self.rng, self.bounds
            )
        except psycopg.Error as error:
            self.refused = self.refused or delays(self.rng)
            self._tell(error)
            self.session.give_up(error)
        self.refused, self.refusals = None, 0
        self.lifeline.join()
        self.events.send(Kind.REGISTERED, worker=worker_id.bytes)
        self.former = None
        return Member(self.session, looking)

    def _tell(self, error: psycopg.Error) -> None:
        """Say once what keeps us from joining: the renewer, which tells of outages, meets none."""
        if tells_of_server(error):
            return
        self.refusals += 1
        if self.refusals == TOLD_AT:
            self.log.warning("join_failed", f"cannot join: {error_text(error)}")

    def lost(self, how: Disconnected, done: Collection[Token]) -> None:
        """The identity is over; `done` were still to be deleted. One that is not settled yet stays the
        one to settle: under the new one nothing was claimed."""
        self.former = self.former or Former(self.session.worker_id, how.left, tuple(done))

    def leave(self) -> None:
        """Tell the parent of an identity that nobody has settled; it has that done."""
        if self.former is not None:
            # Else it would take an end in the middle of a task for the handler's.
            self.events.send(Kind.HELLO, worker=uuid4().bytes)

    def _settle(self, former: Former, conn: Tx) -> None:
        """End what the lost identity held, and tell how."""
        self.handoff.take_all()  # its tokens are of no use to anybody
        outcomes = former.settle(conn, lambda claim: self.judge.released(claim, started=False))
        for left in former.left:
            task, fence = left.claim.task_id, left.claim.fence
            self.events.send(Kind.FINISHED, task=task, fence=fence, flag=outcomes[task])
            if outcomes[task] is Outcome.LOST:
                self.log.warning("lost_lease", say_lost(task), task=task)


def delays(rng: random.Random) -> Iterator[float]:
    """Seconds to wait after the first failure, the second, and so on: doubled, capped, jittered."""
    delay = FIRST_SECONDS
    while True:
        yield delay * (0.5 + rng.random())
        delay = min(CAP_SECONDS, delay * 2)


def connection(
    config: FleetConfig,
    seat: Seat,
    log: LogPipe,
    rng: random.Random,
    go_on: Callable[[float], bool],
) -> Tx | None:
    """Connect, with growing delays; `go_on(seconds)` waits, and says whether to try again."""
    for seconds in delays(rng):
        try:
            return connect(
                config.dsn,
                f"worker {seat.slot}",
                statement_seconds=config.claim_seconds,
                more=SETTINGS,
                factory=Tx,
            )
        except psycopg.Error as error:
            log.debug("no_connection", f"cannot connect: {type(error).__name__}")
        if not go_on(seconds):
            break
    return None


def register(
    conn: Tx,
    worker_id: UUID,
    runner_id: UUID,
    config: FleetConfig,
    slot: int,
    types: list[str],
) -> None:
    """Write the worker's row, with a fresh lease."""
    queues = config.queues_of_slot(slot)
    identity = Identity(
        worker_id,
        runner_id,
        socket.gethostname(),
        os.getpid(),
        slot,
        types,
        list(queues) if queues is not None else None,
        config.lease_seconds,
    )
    register_worker(conn, identity)
