"""Counting ended attempts: buckets, quantiles, sums, and what travels; names in a shared file."""

import contextlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.operating.rates import rates, total
from runner.supervisor.tallies import PERIOD_SECONDS, Tallies
from runner.tally import (
    BUCKETS,
    UPPER_BOUNDS,
    Tally,
    bucket_of,
    number_of,
    pack_tally,
    quantile,
    unpack_tally,
)
from runner.typenames import TypeNames
from runner.wire import Outcome

DURATIONS = st.floats(1e-4, 1e5)


@given(st.floats(allow_nan=False))
def test_every_duration_has_a_bucket_that_holds_it(seconds: float) -> None:
    bucket = bucket_of(seconds)
    assert 0 <= bucket < BUCKETS
    if UPPER_BOUNDS[0] < seconds <= UPPER_BOUNDS[-1]:
        assert UPPER_BOUNDS[bucket - 1] * 0.9999999 <= seconds <= UPPER_BOUNDS[bucket] * 1.0000001


@given(st.lists(DURATIONS, min_size=1, max_size=50), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_quantile_is_near_the_real_one(found: list[float], share: float) -> None:
    tally = Tally(1)
    for seconds in found:
        tally.ended(Outcome.OK, seconds)
    real = sorted(found)[min(len(found) - 1, max(0, -int(-share * len(found) // 1) - 1))]
    told = quantile(tally.durations, share)
    assert told is not None
    assert real / 1.42 <= told <= real * 1.42


def test_nothing_counted_has_no_quantile() -> None:
    assert quantile([0] * BUCKETS, 0.5) is None


def test_outcomes_are_counted_once_each() -> None:
    tally = Tally(1)
    for outcome in Outcome:
        tally.ended(outcome, 0.5)
    assert (tally.done, tally.failed, tally.dead, tally.released, tally.lost) == (1, 2, 1, 1, 1)
    assert (tally.seconds, sum(tally.durations)) == (1.5, 3)


@given(st.lists(st.tuples(st.sampled_from(Outcome), DURATIONS), max_size=30))
def test_a_tally_comes_back_as_it_went_and_adds_up(ended: list[tuple[Outcome, float]]) -> None:
    whole, halves = Tally(-7), [Tally(-7), Tally(-7)]
    for number, (outcome, seconds) in enumerate(ended):
        whole.ended(outcome, seconds)
        halves[number % 2].ended(outcome, seconds)
    first, second = (unpack_tally(pack_tally(half)) for half in halves)
    together = first + second
    assert together.seconds == pytest.approx(whole.seconds)
    together.seconds = whole.seconds
    assert together == whole


def test_types_have_numbers_that_fit_an_event() -> None:
    numbers = {number_of(name) for name in ("", "a", "b", "\udc80", "x" * 255)}
    assert len(numbers) == 5
    assert all(number and -(2**63) <= number < 2**63 for number in numbers)


# -- the parent's side ----------------------------------------------------------------------------


def test_the_parent_tells_once_a_period_and_loses_nothing_to_a_full_channel() -> None:
    with contextlib.closing(Tallies()) as tallies:
        _tell_many(tallies)


def _tell_many(tallies: Tallies) -> None:
    types = [number_of(str(number)) for number in range(2000)]
    for one in types:
        tallies.ended(one, Outcome.OK, 0.01)
    tallies.tell(100.0)  # more than the channel holds, and nobody reads
    found = _received(tallies)
    assert 0 < len(found) < 2000
    tallies.tell(100.0 + PERIOD_SECONDS / 2)
    assert _received(tallies) == []
    for round in range(1, 30):
        tallies.tell(100.0 + round * PERIOD_SECONDS)
        found += _received(tallies)
    assert sorted(tally.type for tally in found) == sorted(types)
    assert sum(tally.done for tally in found) == 2000
    tallies.ended(5, Outcome.DEAD, 0.01)
    tallies.tell(100.0 + 30 * PERIOD_SECONDS - 1, at_once=True)
    assert [tally.dead for tally in _received(tallies)] == [1]


def _received(tallies: Tallies) -> list[Tally]:
    tallies.reader_end.setblocking(False)
    found = []
    while True:
        try:
            found.append(unpack_tally(tallies.reader_end.recv(4096)))
        except BlockingIOError:
            return found


# -- names ----------------------------------------------------------------------------------------


def test_names_add_up_over_workers_and_are_written_once() -> None:
    names = TypeNames()
    assert names.read() is None
    names.tell([])
    assert names.read() == set()
    for known in (["a", "b"], ["b", "é\n"], ["a"], ["a", "b"]):
        names.tell(known)
    assert names.read() == {"a", "b", "é\n"}
    assert os.fstat(names.fd).st_size < 60


# -- rates ----------------------------------------------------------------------------------------


def minute(task_type: str, ago: float, done: int, failed: int = 0) -> dict[str, object]:
    tally = Tally(1)
    for _ in range(done + failed):
        tally.ended(Outcome.OK, 0.25)
    return {
        "type": task_type,
        "began_seconds_ago": ago,
        "done": done,
        "failed": failed,
        "durations": tally.durations,
    }


def test_rates_are_of_the_last_minute() -> None:
    minutes = [minute("a", 15, 150, 15), minute("a", 75, 600), minute("b", 135, 999)]
    found = rates(minutes, 3600.0)
    assert found["a"]["done_per_second"] == (150 + 600 * 0.75) / 60
    assert found["a"]["failed_per_second"] == 0.25
    assert 0.17 < found["a"]["p50_seconds"] < found["a"]["p95_seconds"] < 0.36
    assert found["b"]["done_per_second"] == 0.0
    assert total(found.values()) == {"done_per_second": 10.0, "failed_per_second": 0.25}


def test_a_fleet_that_is_young_is_not_slow() -> None:
    assert rates([minute("a", 10, 100)], 5.0)["a"]["done_per_second"] == 20.0
    assert rates([minute("a", 10, 100)], None)["a"]["done_per_second"] == round(100 / 60, 3)


def test_counts_of_a_fleet_before_this_one_are_not_divided_by_its_age() -> None:
    restarted = [minute("a", 20, 100), minute("a", 80, 600)]
    assert rates(restarted, 5.0)["a"]["done_per_second"] == round((100 + 600 * 40 / 60) / 60, 3)
    across = [minute("a", 10, 100), minute("a", 70, 600), minute("b", 130, 1)]
    assert rates(across, 30.0)["a"]["done_per_second"] == round((100 + 600 * 50 / 60) / 60, 3)
    long_ago = [minute("a", 10, 100), minute("a", 190, 600)]
    assert rates(long_ago, 5.0)["a"]["done_per_second"] == 20.0
