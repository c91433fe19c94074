"""From the commit of an enqueue to the first line of its handler, with nothing else to do."""

import random
import select
import time
from dataclasses import dataclass, field

import runner
from bench.fleet import PROCS, Fleet, fleet
from bench.report import Line, Outcome, at_most, percentile
from bench.sizes import Sizes
from bench.stage import Stage, connect, database

PAUSE_SECONDS = 0.004  # and up to as much again: until the worker is idle again
LOST_SECONDS = 10.0
WARM_UP = 10


@dataclass
class Samples:
    """Milliseconds to the start of the handler."""

    from_send: list[float] = field(
        default_factory=list
    )  # since COMMIT was sent: its flush included
    from_reply: list[float] = field(default_factory=list)  # since the client knew; may be negative


def sample(fleet: Fleet, url: str, count: int) -> Samples:
    """One task at a time, each in a transaction of its own."""
    samples = Samples()
    fleet.witness.drop_starts()
    with connect(url) as conn:
        conn.autocommit = False
        for number in range(-WARM_UP, count):
            task_id = runner.enqueue(conn, "stamp", {"tell": True})
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
    """Percentiles of every repetition, each with a fleet of its own."""
    sent, replied = [], []
    for _ in range(sizes.repeat):
        with database(place) as url, fleet(place, url) as running:
            running.wait_idle(PROCS)
            samples = sample(running, url, sizes.samples)
        sent.append(samples.from_send)
        replied.append(samples.from_reply)
    lines = [
        Line("latency p50, commit sent to start", "ms", _each(sent, 0.5), target=at_most(1.5)),
        Line("latency p99, commit sent to start", "ms", _each(sent, 0.99), target=at_most(5)),
        Line("latency p50, commit done to start", "ms", _each(replied, 0.5)),
        Line("latency p99, commit done to start", "ms", _each(replied, 0.99)),
        Line("latency max, commit sent to start", "ms", _each(sent, 1.0)),
    ]
    return Outcome(lines, details={"samples": sizes.samples})


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
