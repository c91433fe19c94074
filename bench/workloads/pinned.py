"""A drain while another session holds an old snapshot, so that nothing dead can be cleaned away."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.fleet import PROCS, Fleet, fill, fleet
from bench.rates import Course, watch
from bench.report import Line, Outcome, at_most, percentile, ratio_at_least, ratio_at_most
from bench.sizes import Sizes
from bench.stage import Stage, connect, database, tracked
from bench.statements import Meter, claims, total
from bench.workloads.latency import sample

FIFTH = 0.2
MOST_SECONDS = 1800.0
SETTLE_SECONDS = 0.3  # until the sessions have counted what they did last
POINTS = 20


@dataclass(frozen=True)
class Reading:
    """Shared buffers of a claim and of an idle poll at one moment of the drain."""

    claim: float
    poll: float
    costs: list[dict[str, Any]]


@dataclass(frozen=True)
class Round:
    """One drain and what was read around it."""

    course: Course
    readings: list[Reading]  # at the start, after the drain, and some seconds later
    trickle_ms: list[float]

    def fifth(self, number: int) -> float:
        """Tasks per second in one fifth of the drain."""
        first = self.course.samples[0].count
        step = self.course.done * FIFTH
        low, high = first + step * number, first + step * (number + 1)
        return self.course.rate_between(int(low), int(high))


def pinned(place: Stage, sizes: Sizes) -> Outcome:
    """The last fifth against the first; buffers and latency afterwards."""
    rounds = [_round(place, sizes) for _ in range(sizes.repeat)]
    first, last = [each.fifth(0) for each in rounds], [each.fifth(4) for each in rounds]
    target = ratio_at_least(0.9)
    lines = [Line("pinned: last fifth", "tasks/s", last, first, "first fifth", target)]
    for what in ("claim", "poll"):
        at_start = [getattr(each.readings[0], what) for each in rounds]
        for number, when in ((1, "after the drain"), (2, f"{sizes.later_seconds:g} s later")):
            found = [getattr(each.readings[number], what) for each in rounds]
            name = f"pinned: {what}, {when}"
            lines.append(Line(name, "buffers", found, at_start, "at the start", ratio_at_most(3)))
    trickles = [percentile(each.trickle_ms, 0.95) for each in rounds]
    lines.append(Line("pinned: latency p95 of a trickle", "ms", trickles, target=at_most(10)))
    notes = [] if place.statements else ["buffers are those of all sessions together, by second"]
    return Outcome(
        lines,
        notes,
        {
            "series": rounds[-1].course.series(POINTS),
            "readings": [[vars(reading) for reading in each.readings] for each in rounds],
        },
    )


def _round(place: Stage, sizes: Sizes) -> Round:
    with database(place) as url, _old_snapshot(url):
        own = tracked(url) if place.statements else None
        with fleet(place, url, own_url=own) as running:
            running.wait_idle(PROCS)
            readings = [_read(place, url, running, sizes)]
        with connect(url) as conn:
            # Of the type that trickles before and after: its dead index entries are in the way.
            fill(conn, {"stamp": sizes.pinned}, clear=False)
        with fleet(place, url, own_url=own) as running:
            course = watch(running, PROCS, sizes.pinned, MOST_SECONDS)
            readings.append(_read(place, url, running, sizes))
            time.sleep(sizes.later_seconds)
            readings.append(_read(place, url, running, sizes))
            trickle = sample(running, url, sizes.samples // 4).from_send
    return Round(course, readings, trickle)


def _read(place: Stage, url: str, running: Fleet, sizes: Sizes) -> Reading:
    """A trickle of tasks one by one, for the claim; then silence, for the poll."""
    meter = Meter(running.conn, place.statements)
    meter.start()
    sample(running, url, sizes.trickle)
    time.sleep(SETTLE_SECONDS)
    busy = meter.costs()
    meter.start()
    time.sleep(sizes.quiet_seconds)
    quiet = meter.costs()
    claim = claims(busy) or total(busy)
    # The poll is whatever an idle fleet asks: its most expensive statement counts, not the mean.
    poll = max((cost.buffers_a_call for cost in quiet), default=0.0)
    told = [
        {"query": cost.query, "calls": cost.calls, "buffers": cost.buffers, "when": when}
        for when, costs in (("trickle", busy), ("idle", quiet))
        for cost in costs[:10]
    ]
    return Reading(claim.buffers_a_call, poll, told)


@contextmanager
def _old_snapshot(url: str) -> Iterator[None]:
    with connect(url) as conn:
        conn.execute("begin isolation level repeatable read")
        conn.execute("select count(*) from runner.task")
        yield
