"""Tasks per second of a fleet, without its start and with its last DELETE."""

import itertools
import time
from dataclasses import dataclass
from typing import LiteralString

from bench.fleet import READY_SECONDS, Fleet

SAMPLE_SECONDS = 0.005
EMPTY_SECONDS = 30.0
RUNNING: LiteralString = "select count(*) from runner.task where state = 'running'"
ALL: LiteralString = "select count(*) from runner.task"


@dataclass(frozen=True)
class Sample:
    """How many handlers had run at a moment."""

    at: float
    count: int


@dataclass(frozen=True)
class Course:
    """The samples of one measurement, the first taken once every worker was at work."""

    samples: list[Sample]

    @property
    def rate(self) -> float:
        """Tasks per second."""
        return _rate(self.samples[0], self.samples[-1])

    @property
    def done(self) -> int:
        """Tasks that were measured."""
        return self.samples[-1].count - self.samples[0].count

    def rate_between(self, low: int, high: int) -> float:
        """Tasks per second while the count went from `low` to `high`."""
        within = [each for each in self.samples if low <= each.count <= high]
        return _rate(within[0], within[-1]) if len(within) > 1 else 0.0

    def series(self, points: int) -> list[tuple[float, float]]:
        """So many (tasks done, tasks per second), evenly over the tasks."""
        first, last = self.samples[0].count, self.samples[-1].count
        step = (last - first) / points
        edges = [first + step * number for number in range(points + 1)]
        return [
            (high, self.rate_between(int(low), int(high)))
            for low, high in itertools.pairwise(edges)
        ]


def watch(fleet: Fleet, procs: int, tasks: int, most_seconds: float) -> Course:
    """Look on until so many tasks are done, or for so long after all workers have begun.

    Nothing is counted until every worker has completed one: forking, connecting and importing are not
    the rate. A run that is done to the end ends when the table says so, group deletes included; one
    that is cut off ends in the middle of them, as it began.
    """
    seen = fleet.witness
    began = fleet.wait(lambda: seen.busy() >= procs or seen.total() >= tasks, READY_SECONDS, 0.001)
    if not began and seen.busy() == 0:
        raise fleet.failure("no worker did anything")
    samples = [Sample(time.monotonic(), seen.total())]
    end = samples[0].at + most_seconds
    while samples[-1].count < tasks and samples[-1].at < end:
        time.sleep(SAMPLE_SECONDS)
        fleet.check()
        samples.append(Sample(time.monotonic(), seen.total()))
    return Course(samples)


def watch_to_end(fleet: Fleet, procs: int, tasks: int, most_seconds: float) -> Course:
    """The same for all the tasks there are; checks that none is left."""
    course = watch(fleet, procs, tasks, most_seconds)
    if course.samples[-1].count < tasks:
        return course
    empty = fleet.wait(lambda: _count(fleet, RUNNING) == 0, EMPTY_SECONDS, 0.002)
    course.samples.append(Sample(time.monotonic(), course.samples[-1].count))
    left = _count(fleet, ALL)
    if not empty or left:
        raise fleet.failure(f"{left} of {tasks} tasks are left after all have run")
    return course


def _count(fleet: Fleet, query: LiteralString) -> int:
    return int(fleet.conn.execute(query).fetchall()[0][0])


def _rate(first: Sample, last: Sample) -> float:
    seconds = last.at - first.at
    return (last.count - first.count) / seconds if seconds > 0 else 0.0
