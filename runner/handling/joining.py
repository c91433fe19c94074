"""How a worker joins: a connection however long that takes, and a row that announces it."""

import os
import random
import socket
from collections.abc import Callable, Iterator
from uuid import UUID

import psycopg

from ..config import FleetConfig
from ..logpipe import LogPipe
from ..seat import Seat
from ..store.connect import connect
from ..store.sending import SETTINGS
from ..store.tx import Tx
from ..store.workers import Identity, register_worker

FIRST_SECONDS, CAP_SECONDS = 0.1, 5.0


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
