"""A lease is taken only when the database says it ended and this observer saw it stand still."""

import math

from hypothesis import given
from hypothesis import strategies as st

from runner.observing import Lease, Observer

L = 30.0
DAY = 86_400.0


def lease(until: int, *, ended: bool, ends_in: float = 0.0, name: str = "a") -> Lease[str]:
    return Lease(name, until, ended, ends_in, L)


def test_a_fresh_sweeper_waits_half_a_lease() -> None:
    observer: Observer[str] = Observer()
    assert observer.look([lease(1, ended=True, ends_in=-1000)], 0.0) == ([], L / 2)
    assert observer.look([lease(1, ended=True, ends_in=-1000)], L / 2 - 0.01)[0] == []
    ripe, _ = observer.look([lease(1, ended=True, ends_in=-1000)], L / 2)
    assert [one.id for one in ripe] == ["a"]


def test_a_renewal_in_between_starts_the_wait_anew() -> None:
    observer: Observer[str] = Observer()
    observer.look([lease(1, ended=True)], 0.0)
    assert observer.look([lease(2, ended=True)], 14.0)[0] == []
    assert observer.look([lease(2, ended=True)], 28.9) == ([], 29.0)
    assert observer.look([lease(2, ended=True)], 29.0)[0]


def test_back_to_a_former_value_is_a_change_too() -> None:
    # A failover that forgot a renewal shows an old value again.
    observer: Observer[str] = Observer()
    observer.look([lease(1, ended=False, ends_in=20)], 0.0)
    observer.look([lease(2, ended=False, ends_in=25)], 10.0)
    assert observer.look([lease(1, ended=True)], 20.0)[0] == []
    assert observer.look([lease(1, ended=True)], 35.0)[0]


def test_a_database_clock_that_jumps_a_day_takes_nothing_that_is_renewed() -> None:
    observer: Observer[str] = Observer()
    for step in range(200):  # renewed every 5 s, and the database always says: ended
        ripe, _ = observer.look([lease(step, ended=True, ends_in=-DAY)], step * 5.0)
        assert ripe == []


def test_seen_while_it_was_alive_counts() -> None:
    observer: Observer[str] = Observer()
    assert observer.look([lease(1, ended=False, ends_in=20.0)], 0.0) == ([], 20.0)
    assert observer.look([lease(1, ended=True)], 20.0)[0]


def test_next_is_never_before_it_can_be_taken() -> None:
    observer: Observer[str] = Observer()
    # It ends in 3 s by the database, but this observer needs 15 s.
    assert observer.look([lease(1, ended=False, ends_in=3.0)], 100.0) == ([], 115.0)
    assert observer.look([], 101.0) == ([], math.inf)


def test_what_vanished_is_forgotten() -> None:
    observer: Observer[str] = Observer()
    observer.look([lease(1, ended=True)], 0.0)
    observer.look([], 10.0)
    assert observer.look([lease(1, ended=True)], 20.0)[0] == []


def test_each_lease_has_its_own_wait() -> None:
    observer: Observer[str] = Observer()
    one, two = lease(1, ended=True), lease(1, ended=True, name="b")
    observer.look([one], 0.0)
    observer.look([one, two], 10.0)
    ripe, next_at = observer.look([one, two], 15.0)
    assert [found.id for found in ripe] == ["a"]
    assert next_at == 25.0


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 2), st.booleans()), max_size=30))
def test_never_taken_before_half_a_lease_without_a_change(
    steps: list[tuple[float, int, bool]],
) -> None:
    observer: Observer[str] = Observer()
    now, since, last = 0.0, 0.0, None
    for wait, until, ended in steps:
        now += wait
        if until != last:
            since, last = now, until
        ripe, next_at = observer.look([lease(until, ended=ended)], now)
        assert bool(ripe) == (ended and now - since >= L / 2)
        assert ripe or next_at >= now
