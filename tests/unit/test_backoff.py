"""Delays grow, stop at the cap, and never overflow."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.backoff import Backoff
from runner.cli.params import Backoffs

PLAIN = Backoff(jitter=0.0)


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 64), (8, 64)]
)
def test_doubles_up_to_the_cap(failures: int, seconds: float) -> None:
    assert PLAIN.delay(failures, random.Random(1)) == seconds


@pytest.mark.parametrize("failures", [100, 1024, 5000, 10_000, 2**62])
def test_attempt_5000_gives_the_cap(failures: int) -> None:
    assert PLAIN.delay(failures, random.Random(1)) == PLAIN.cap_seconds


@pytest.mark.parametrize("failures", [0, -1, -(2**40)])
def test_less_than_one_failure_counts_as_one(failures: int) -> None:
    assert PLAIN.delay(failures, random.Random(1)) == PLAIN.first_seconds


@given(st.integers(-10, 10**6), st.floats(0, 1e6), st.floats(0, 1e9), st.integers())
def test_is_never_above_cap_and_jitter(n: int, first: float, cap: float, seed: int) -> None:
    delay = Backoff(first, cap).delay(n, random.Random(seed))
    assert 0 <= delay <= cap * 1.1


def test_jitter_only_adds_and_differs() -> None:
    rng = random.Random(7)
    delays = [Backoff(10, 10).delay(1, rng) for _ in range(100)]
    assert min(delays) >= 10
    assert max(delays) <= 11
    assert len(set(delays)) > 90


@pytest.mark.parametrize("parse", [Backoff.parse, Backoffs().parse], ids=["class", "option"])
def test_a_first_delay_alone_may_be_above_the_usual_cap(parse: Callable[[str], Backoff]) -> None:
    assert parse("600s") == Backoff(600.0, 600.0)
    assert parse("2s") == Backoff(2.0, 64.0)
    with pytest.raises(ValueError, match="at most the cap"):
        parse("2s:1s")
