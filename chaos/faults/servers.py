"""What befalls the server: a crash, a disk without room, a clock that somebody sets."""

import random
from contextlib import suppress

import psycopg

from chaos.faults.waiting import Waits
from chaos.server import Server
from chaos.stage import LEASE_SECONDS, Missed, Stage

SEGMENTS = 16  # of WAL; more than the server has ready
USE_UP = """select pg_logical_emit_message(false, 'chaos', 'x');
            select pg_switch_wal()"""
HOURS = (1, -1)
# Of what was put off by a clock that was an hour ahead: claimed in the future, as its fence tells, or
# claimed before the jump and swept during it.
CALL_BACK = """update runner.task set run_at = run_at - interval '1 h'
               where state = 'scheduled' and run_at > clock_timestamp() + interval '30 min'
                 and (fence > extract(epoch from clock_timestamp()) * 1000000
                      or cause = 'lease expired')"""
LATE_SECONDS = 0.25


def restart_database(stage: Stage, rng: random.Random) -> Waits:
    _undisturbed(stage).restart()
    yield 0.0


def fill_disk(stage: Stage, rng: random.Random) -> Waits:
    """No room for a while. In every second strike none in the WAL either: then the server goes down, and
    does not come up again before there is."""
    server = _undisturbed(stage)
    assert server.disk is not None
    with stage.lasting_on(server):
        server.disk.fill()
        try:
            if rng.random() < 0.5:
                _use_up_wal(stage)
            yield LEASE_SECONDS * rng.uniform(0.5, 2)
        finally:
            server.disk.clear()
    # One that is about to go down is started again by the campaign.
    if not server.alive:
        server.start()


def jump_clock(stage: Stage, rng: random.Random) -> Waits:
    """An hour ahead or back, and right again. What was put off under a clock that was ahead is called
    back by hand: only who has set the clock knows that it was wrong."""
    clock = stage.server.clock
    assert clock is not None
    if clock.hours:
        raise Missed
    hours = rng.choice(HOURS)
    clock.set(hours)
    try:
        yield LEASE_SECONDS * rng.uniform(0.2, 2)
    finally:
        clock.set(0)
    if hours > 0:
        yield from _called_back(stage)


def _undisturbed(stage: Stage) -> Server:
    if stage.server.disturbed or not stage.server.alive:
        raise Missed
    return stage.server


def _use_up_wal(stage: Stage) -> None:
    with suppress(psycopg.Error, Missed), stage.connect() as conn:
        for _ in range(SEGMENTS):
            conn.execute(USE_UP)


def _called_back(stage: Stage) -> Waits:
    """For a lease: a statement that was under way at the jump may end late."""
    done = 0.0
    while done < LEASE_SECONDS:
        with suppress(psycopg.Error, Missed), stage.connect() as conn:
            conn.execute(CALL_BACK)
            done += LATE_SECONDS
        yield LATE_SECONDS
