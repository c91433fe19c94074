"""What befalls sessions, and the network that they lead through."""

import random
from contextlib import suppress

import psycopg

from chaos import server
from chaos.faults.waiting import Waits, frozen
from chaos.proxy import COMMIT_TAG, CutOnce, let_pass
from chaos.stage import LEASE_SECONDS, Missed, Session, Stage

A_BACKEND = """select pid from pg_stat_activity
               where application_name like 'runner%%' and datname = current_database()
               order by random() limit 1"""


def terminate_backend(stage: Stage, rng: random.Random) -> Waits:
    with stage.connect() as conn:
        _terminate_one(conn)
    yield 0.0


def freeze_backend(stage: Stage, rng: random.Random) -> Waits:
    with stage.connect() as conn:
        row = conn.execute(A_BACKEND).fetchone()
    if row is None:
        raise Missed
    yield from frozen([row[0]], LEASE_SECONDS * rng.uniform(0.05, 0.5))


def cut_commit_reply(stage: Stage, rng: random.Random) -> Waits:
    """The server has committed, and its answer is lost with the connection."""
    yield from _cut_at(stage, rng, COMMIT_TAG, "<")


def cut_commit(stage: Stage, rng: random.Random) -> Waits:
    """The connection is lost before the COMMIT arrives."""
    yield from _cut_at(stage, rng, b"commit", ">")


def cut_socket(stage: Stage, rng: random.Random) -> Waits:
    proxy = stage.runner(rng, proxied=True).proxy
    if proxy is None or not proxy.cut(rng.choice):
        raise Missed
    yield 0.0


def black_hole(stage: Stage, rng: random.Random) -> Waits:
    """Nothing passes, nobody is told, and later all of it arrives after all."""
    runner = stage.runner(rng, proxied=True)
    assert runner.proxy is not None
    with stage.lasting_on(runner):
        runner.proxy.freeze()
        try:
            yield LEASE_SECONDS * rng.uniform(0.5, 2)
        finally:
            runner.proxy.thaw()


def cut_network(stage: Stage, rng: random.Random) -> Waits:
    runner = stage.runner(rng, hosted=True)
    assert runner.host is not None
    with stage.lasting_on(runner):
        runner.host.cut()
        try:
            yield LEASE_SECONDS * rng.uniform(0.5, 3)
        finally:
            runner.host.heal()


def lose_packets(stage: Stage, rng: random.Random) -> Waits:
    runner = stage.runner(rng, hosted=True)
    assert runner.host is not None
    runner.host.lose(0.3)
    try:
        yield LEASE_SECONDS
    finally:
        runner.host.lose(0)


def reset_connections(stage: Stage, rng: random.Random) -> Waits:
    runner = stage.runner(rng, hosted=True)
    assert runner.host is not None
    runner.host.refuse(server.PORT, True)
    try:
        yield 0.3
    finally:
        runner.host.refuse(server.PORT, False)


def use_up_connections(stage: Stage, rng: random.Random) -> Waits:
    taken = []
    try:
        with suppress(psycopg.Error):
            for _ in range(100):
                taken.append(psycopg.connect(stage.url, connect_timeout=1))
        yield rng.uniform(0.5, 2)
    finally:
        for conn in taken:
            conn.close()


def _terminate_one(conn: Session) -> None:
    try:
        row = conn.execute(f"select pg_terminate_backend(({A_BACKEND}))").fetchone()
    except psycopg.Error as error:
        raise Missed from error
    if row is None or not row[0]:
        raise Missed


def _cut_at(stage: Stage, rng: random.Random, needle: bytes, direction: str) -> Waits:
    proxy = stage.runner(rng, proxied=True).proxy
    if proxy is None or proxy.rule is not let_pass:
        raise Missed
    proxy.rule = rule = CutOnce(needle, direction=direction)
    try:
        for _ in range(100):
            if not rule.left:
                return
            yield 0.02
        raise Missed
    finally:
        proxy.rule = let_pass
