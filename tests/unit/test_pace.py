"""How many are claimed at once."""

from runner.handling.pace import GROWTH, MOST, Pace


def short_ones() -> Pace:
    """Of a type that is known to be short, and claimed by hundreds."""
    pace = Pace()
    for _ in range(6):
        pace.took("t", 0.00001)
        pace.claimed("t", pace.wanted("t"))
    return pace


def test_short_ones_are_claimed_more_and_more_at_once() -> None:
    assert short_ones().wanted("t") == MOST


def test_what_runs_alone_is_claimed_by_few() -> None:
    """A batch that a sweep has found: each of it runs alone, and the others are given back each time."""
    pace = short_ones()
    pace.claimed("t", MOST)
    pace.alone("t")
    assert pace.wanted("t") <= GROWTH
