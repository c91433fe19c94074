"""From the commit of an enqueue to the first line of its handler, with nothing else to do.

How long that is says more of the machine than of the code. So in turn with it the least is measured
that anybody could write.
"""

import random
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import runner
from bench import listener
from bench.fleet import PROCS, Fleet, fleet
from bench.report import Line, Outcome, Target, at_most, percentile
from bench.sizes import Sizes
from bench.stage import Connection, Stage, connect, database

PAUSE_SECONDS = 0.004  # and up to as much again: until the worker is idle again
LOST_SECONDS = 10.0
WARM_UP = 10


def _stamp(conn: Connection) -> int | None:
    return runner.enqueue(conn, "stamp", {"tell": True})


@dataclass
class Samples:
    """Milliseconds to the start of the handler."""

    from_send: list[float] = field(
        default_factory=list
    )  # since COMMIT was sent: its flush included
    from_reply: list[float] = field(default_factory=list)  # since the client knew; may be negative


def sample(
    fleet: Fleet, url: str, count: int, put: Callable[[Connection], int | None] = _stamp
) -> Samples:
    """One task at a time, each in a transaction of its own."""
    samples = Samples()
    fleet.witness.drop_starts()
    with connect(url) as conn:
        conn.autocommit = False
        for number in range(-WARM_UP, count):
            task_id = put(conn)
            sent = time.monotonic_ns()
            conn.commit()
            replied = time.monotonic_ns()
            started = _start_of(fleet, task_id)
            if number >= 0:
                samples.from_send.append((started - sent) / 1e6)
                samples.from_reply.append((started - replied) / 1e6)
            time.sleep(PAUSE_SECONDS * (1 + random.random()))
    return samples


def latency(place: Stage, sizes: Sizes) -> Outcome:
    """Percentiles of every repetition, each with a listener and a fleet of its own."""
    ours, floor = [], []
    for _ in range(sizes.repeat):
        with database(place) as url:
            with listener.listener(place, url) as bare:
                floor.append(sample(bare, url, sizes.samples, listener.put))
            with fleet(place, url) as running:
                running.wait_idle(PROCS)
                ours.append(sample(running, url, sizes.samples))
    sent = [each.from_send for each in ours], [each.from_send for each in floor]
    replied = [each.from_reply for each in ours], [each.from_reply for each in floor]
    lines = [
        _line("p50, commit sent to start", 0.5, *sent, target=at_most(1.5)),
        _line("p99, commit sent to start", 0.99, *sent, target=at_most(5)),
        _line("p50, commit done to start", 0.5, *replied),
        _line("p99, commit done to start", 0.99, *replied),
        Line("latency max, commit sent to start", "ms", _each(sent[0], 1.0)),
    ]
    return Outcome(lines, details={"samples": sizes.samples})


def _line(
    name: str, share: float, ours: list[list[float]], floor: list[list[float]],
    target: Target | None = None,
) -> Line:  # fmt: skip
    sides = _each(ours, share), _each(floor, share)
    return Line(f"latency {name}", "ms", *sides, listener.NAME, target)


def _each(repetitions: list[list[float]], share: float) -> list[float]:
    return [percentile(samples, share) for samples in repetitions]


def _start_of(fleet: Fleet, task_id: int | None) -> int:
    """When the handler of a task started, by its own word."""
    end = time.monotonic() + LOST_SECONDS
    while time.monotonic() < end:
        select.select([fleet.witness.starts], [], [], 1.0)
        for found, at_ns in fleet.witness.read_starts():
            if found == task_id:
                return at_ns
        fleet.check()
    raise fleet.failure(f"task {task_id} did not start within {LOST_SECONDS:.0f} s")
