"""The faults. Each is a generator: it strikes, yields how long it lasts, and heals.

Faults overlap freely; only what disturbs a fleet as a whole waits its turn there. `Missed` means that
there is nobody to meet just now, and is not counted.
"""

import random
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import psycopg

from chaos import processes, server
from chaos.proxy import COMMIT_TAG, CutOnce, let_pass
from chaos.stage import LEASE_SECONDS, Missed, Session, Stage

Waits = Iterator[float]  # seconds until it goes on
RESTART_SECONDS = 0.2


@dataclass(frozen=True)
class Fault:
    """What it does, and how often a minute it strikes in a soak."""

    strike: Callable[[Stage, random.Random], Waits]
    per_minute: float


def kill_worker(stage: Stage, rng: random.Random) -> Waits:
    pid = stage.child(rng, worker=True)
    _send(pid, signal.SIGKILL)
    yield 0.0


def kill_helper(stage: Stage, rng: random.Random) -> Waits:
    """Renewer, maintainer or log, or a worker that has not begun anything yet."""
    pid = stage.child(rng, worker=False)
    _send(pid, signal.SIGKILL)
    yield 0.0


def kill_parent(stage: Stage, rng: random.Random) -> Waits:
    runner = stage.runner(rng)
    with stage.lasting_on(runner):
        runner.kill()
        yield RESTART_SECONDS
        runner.start()


def stop_runner(stage: Stage, rng: random.Random) -> Waits:
    """A graceful stop, as in a deploy."""
    runner = stage.runner(rng)
    with stage.lasting_on(runner):
        _send(runner.pid, signal.SIGTERM)
        while runner.alive:
            yield 0.05
        runner.start()


def freeze_parent(stage: Stage, rng: random.Random) -> Waits:
    runner = stage.runner(rng)
    with stage.lasting_on(runner):
        yield from _frozen([runner.pid], LEASE_SECONDS * rng.uniform(1, 3))


def freeze_worker(stage: Stage, rng: random.Random) -> Waits:
    pid = stage.child(rng, worker=True)
    yield from _frozen([pid], LEASE_SECONDS * rng.uniform(0.2, 3))


def freeze_both(stage: Stage, rng: random.Random) -> Waits:
    """A parent with all that it has: as when a machine sleeps."""
    runner = stage.runner(rng)
    with stage.lasting_on(runner):
        family = [runner.pid, *processes.children_of(runner.pid)]
        yield from _frozen(family, LEASE_SECONDS * rng.uniform(1, 3))


def freeze_busy(stage: Stage, rng: random.Random, *, whole: bool) -> Waits:
    """A fleet whose handlers are at work, until somebody else must have taken their tasks."""
    while not (busy := [one for one in stage.runners if one.alive and stage.is_busy(one)]):
        yield 0.1
    runner = rng.choice(busy)
    with stage.lasting_on(runner):
        children = processes.children_of(runner.pid) if whole else []
        yield from _frozen([runner.pid, *children], LEASE_SECONDS * CONTROL_LEASES)


def restart_database(stage: Stage, rng: random.Random) -> Waits:
    _database_once(stage)
    stage.server.restart()
    yield 0.0


def terminate_backend(stage: Stage, rng: random.Random) -> Waits:
    with stage.connect() as conn:
        _terminate_one(conn)
    yield 0.0


def freeze_backend(stage: Stage, rng: random.Random) -> Waits:
    with stage.connect() as conn:
        row = conn.execute(A_BACKEND).fetchone()
    if row is None:
        raise Missed
    yield from _frozen([row[0]], LEASE_SECONDS * rng.uniform(0.05, 0.5))


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


def starve_memory(stage: Stage, rng: random.Random) -> Waits:
    """A worker that gets no more memory for a second: whatever it does next may fail."""
    pid = stage.child(rng, worker=True)
    try:
        limit = processes.address_space(pid)
        soft, hard = resource.prlimit(pid, resource.RLIMIT_AS)
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, hard))
    except (ProcessLookupError, FileNotFoundError) as error:
        raise Missed from error
    yield 1.0
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_AS, (soft, hard))


FAULTS = {
    "kill_worker": Fault(kill_worker, 240),
    "kill_helper": Fault(kill_helper, 6),
    "kill_parent": Fault(kill_parent, 4),
    "stop_runner": Fault(stop_runner, 1),
    "freeze_parent": Fault(freeze_parent, 1),
    "freeze_worker": Fault(freeze_worker, 5),
    "freeze_both": Fault(freeze_both, 0.7),
    "restart_database": Fault(restart_database, 3),
    "terminate_backend": Fault(terminate_backend, 130),
    "freeze_backend": Fault(freeze_backend, 2),
    "cut_commit_reply": Fault(cut_commit_reply, 25),
    "cut_commit": Fault(cut_commit, 15),
    "cut_socket": Fault(cut_socket, 10),
    "black_hole": Fault(black_hole, 0.5),
    "cut_network": Fault(cut_network, 0.7),
    "lose_packets": Fault(lose_packets, 1),
    "reset_connections": Fault(reset_connections, 4),
    "use_up_connections": Fault(use_up_connections, 2),
    "starve_memory": Fault(starve_memory, 4),
}
# For the control arm, one at a time. Frequent kills would hide what these show.
CONTROL_LEASES = 3.0
CONTROL = {
    "freeze_busy_fleet": Fault(partial(freeze_busy, whole=True), 0),
    "freeze_busy_parent": Fault(partial(freeze_busy, whole=False), 0),
}

A_BACKEND = """select pid from pg_stat_activity
               where application_name like 'runner%%' and datname = current_database()
               order by random() limit 1"""


def _terminate_one(conn: Session) -> None:
    try:
        row = conn.execute(f"select pg_terminate_backend(({A_BACKEND}))").fetchone()
    except psycopg.Error as error:
        raise Missed from error
    if row is None or not row[0]:
        raise Missed


def _send(pid: int, number: signal.Signals) -> None:
    if not processes.send(pid, number):
        raise Missed


def _frozen(pids: list[int], seconds: float) -> Waits:
    if not [pid for pid in pids if processes.send(pid, signal.SIGSTOP)]:
        raise Missed
    born = {pid: processes.born(pid) for pid in pids}
    try:
        yield seconds
    finally:
        for pid in pids:
            if processes.born(pid) == born[pid]:
                processes.send(pid, signal.SIGCONT)


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


def _database_once(stage: Stage) -> None:
    if not stage.server.alive:
        raise Missed
