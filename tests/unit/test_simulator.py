"""L0 in its short form: some histories of every kind, and every guard taken out once."""

import os

import pytest

from tests.simulator.campaign import MIXES, caught, play
from tests.simulator.mutations import GUARDS, Guard

FIRST_SEED = int(os.environ.get("RUNNER_TEST_SEED", "1"))


@pytest.mark.parametrize("number", range(len(MIXES)))
def test_histories_without_a_violation(number: int) -> None:
    result = play(FIRST_SEED, MIXES[number], faults=800)
    assert result.faults.total() >= 800
    assert not result.broken, result.broken


@pytest.mark.parametrize("guard", GUARDS, ids=[guard.name for guard in GUARDS])
def test_a_guard_taken_out_is_missed(guard: Guard) -> None:
    assert caught(guard).broken, f"nobody has noticed that this is gone: {guard.name}"


def test_a_seed_replays_its_history() -> None:
    first, second = play(FIRST_SEED, faults=300), play(FIRST_SEED, faults=300)
    assert (first.faults, first.done) == (second.faults, second.done)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_million_faults() -> None:
    from tests.simulator.__main__ import campaign

    result = campaign(1_000_000, FIRST_SEED, jobs=2)
    assert result.faults.total() >= 1_000_000
    assert not result.broken, result.broken
