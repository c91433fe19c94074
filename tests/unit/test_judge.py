"""What becomes of a claim: each row of the state table, and the bounds."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.backoff import Backoff
from runner.judge import INTERRUPTED_TOO_OFTEN, NOTHING, Claim, Judge, Verdict
from runner.wire import How, Outcome, Token

JUDGE = Judge(Backoff(jitter=0.0), random.Random(1))
CLAIM = Claim(task_id=1, fence=900, attempt=2, max_attempts=5, released=0, solo=False)
LAST = CLAIM._replace(attempt=5)


def shown(verdict: Verdict, *names: str) -> dict[str, Any]:
    return {name: getattr(verdict, name) for name in names}


def test_a_failure_keeps_the_attempt_and_waits() -> None:
    verdict = JUDGE.failed(CLAIM, "ValueError", "ValueError: no")
    assert verdict == Verdict(
        Outcome.RETRIED, "scheduled", 2, 0, False, 2.0, "ValueError", "ValueError: no", True
    )


def test_the_last_failure_is_death() -> None:
    verdict = JUDGE.failed(LAST, "ValueError", "ValueError: no")
    assert verdict == Verdict(
        Outcome.DEAD, "dead", 5, 0, False, 0.0, "ValueError", "ValueError: no", True
    )


def test_discard_is_death_at_once() -> None:
    verdict = JUDGE.failed(CLAIM._replace(attempt=1), "Discard", "no use", final=True)
    assert shown(verdict, "outcome", "state", "attempt") == {
        "outcome": Outcome.DEAD,
        "state": "dead",
        "attempt": 1,
    }


def test_a_delay_of_the_handlers_own_and_a_backoff_of_its_type() -> None:
    assert JUDGE.failed(CLAIM, "Retry", delay=0).delay_seconds == 0
    assert JUDGE.failed(CLAIM, "Retry", delay=77).delay_seconds == 77
    own = Backoff(10, 15, 0.0)
    assert JUDGE.failed(CLAIM, "x", backoff=own).delay_seconds == 15
    assert JUDGE.failed(CLAIM, "x", backoff=own, delay=3).delay_seconds == 3


def test_snooze_refunds_and_is_no_failure() -> None:
    verdict = JUDGE.snoozed(CLAIM, 60)
    assert verdict == Verdict(Outcome.SNOOZED, "scheduled", 1, 0, False, 60, "snoozed")
    assert not verdict.failed


def test_snooze_is_never_bounded() -> None:
    claim = LAST
    for _ in range(1000):
        verdict = JUDGE.snoozed(claim, 1)
        assert verdict.state == "scheduled"
        claim = claim._replace(attempt=verdict.attempt + 1)
    assert claim == LAST


def test_a_stop_refunds_and_counts_only_what_had_started() -> None:
    begun = JUDGE.released(CLAIM, started=True)
    assert begun == Verdict(Outcome.RELEASED, "ready", 1, 1, False, cause="stopped")
    assert JUDGE.released(CLAIM, started=False) == Verdict(Outcome.RELEASED, "ready", 1, 0, False)


def test_a_graceful_stop_is_never_bounded() -> None:
    claim = CLAIM._replace(attempt=1, max_attempts=1, released=10_000)
    assert JUDGE.released(claim, started=True).state == "ready"
    assert JUDGE.settled(claim, How.STOPPED, "stopped", claim.token).state == "ready"


def test_an_interruption_refunds_counts_and_waits() -> None:
    verdict = JUDGE.interrupted(CLAIM, "lease lost")
    assert verdict == Verdict(
        Outcome.RELEASED, "scheduled", 1, 1, False, 1.0, "lease lost", None, False
    )


@pytest.mark.parametrize("most", [1, 5])
def test_interrupted_more_than_three_times_its_attempts_is_death(most: int) -> None:
    claim = CLAIM._replace(attempt=1, max_attempts=most)
    for _ in range(3 * most):
        verdict = JUDGE.interrupted(claim, "lease lost")
        assert verdict.state == "scheduled"
        claim = claim._replace(attempt=verdict.attempt + 1, released=verdict.released)
    verdict = JUDGE.interrupted(claim, "lease lost")
    assert verdict.state == "dead"
    assert verdict.attempt == 1
    assert verdict.cause == f"{INTERRUPTED_TOO_OFTEN}, last: lease lost"


@pytest.mark.parametrize(
    ("how", "outcome", "state", "attempt", "released", "delay"),
    [
        (How.DIED, Outcome.RETRIED, "scheduled", 2, 0, 2.0),
        (How.LEASE_LOST, Outcome.RELEASED, "scheduled", 1, 1, 1.0),
        (How.DISCONNECTED, Outcome.RELEASED, "scheduled", 1, 1, 1.0),
        (How.STOPPED, Outcome.RELEASED, "ready", 1, 1, 0.0),
    ],
)
def test_settling_what_had_begun(
    how: How, outcome: Outcome, state: str, attempt: int, released: int, delay: float
) -> None:
    verdict = JUDGE.settled(CLAIM, how, "why", CLAIM.token)
    assert (verdict.outcome, verdict.state) == (outcome, state)
    assert (verdict.attempt, verdict.released) == (attempt, released)
    assert verdict.delay_seconds == delay
    assert verdict.error is None  # what the handler said before stays


@pytest.mark.parametrize("how", set(How) - {How.SWEPT})
@pytest.mark.parametrize(
    "begun",
    [
        NOTHING,
        Token(CLAIM.task_id, CLAIM.fence - 1),
        Token(CLAIM.task_id, CLAIM.fence + 1),
        Token(CLAIM.task_id + 1, CLAIM.fence),  # claimed in the same microsecond
    ],
)
def test_settling_what_had_not_begun_costs_nothing(how: How, begun: Token) -> None:
    verdict = JUDGE.settled(CLAIM, how, "why", begun)
    assert verdict == Verdict(Outcome.RELEASED, "ready", 1, 0, False)


def test_a_death_at_the_last_attempt() -> None:
    verdict = JUDGE.settled(LAST, How.DIED, "SIGSEGV", LAST.token)
    assert (verdict.outcome, verdict.state, verdict.cause) == (Outcome.DEAD, "dead", "SIGSEGV")
    assert verdict.failed


def test_a_sweep_doubts_once_and_then_charges() -> None:
    first = JUDGE.settled(CLAIM, How.SWEPT, "lease expired")
    assert (first.state, first.attempt, first.released, first.solo) == ("scheduled", 1, 1, True)
    again = CLAIM._replace(solo=True, released=1)
    second = JUDGE.settled(again, How.SWEPT, "lease expired")
    assert (second.state, second.attempt, second.failed) == ("scheduled", 2, True)
    last = JUDGE.settled(again._replace(attempt=5), How.SWEPT, "lease expired")
    assert last.state == "dead"


@pytest.mark.parametrize("solo", [False, True])
def test_solo_is_kept_by_whatever_else_happens(solo: bool) -> None:
    claim = CLAIM._replace(solo=solo)
    for verdict in (
        JUDGE.failed(claim, "x"),
        JUDGE.snoozed(claim, 1),
        JUDGE.released(claim, started=True),
        JUDGE.interrupted(claim, "x"),
    ):
        assert verdict.solo is solo


def test_a_swept_task_cannot_be_swept_for_ever() -> None:
    claim = CLAIM._replace(attempt=1)
    for _ in range(20):
        verdict = JUDGE.settled(claim, How.SWEPT, "lease expired")
        if verdict.state == "dead":
            return
        claim = claim._replace(
            attempt=verdict.attempt + 1, released=verdict.released, solo=verdict.solo
        )
    pytest.fail("still alive")


CLAIMS = st.integers(1, 10_000).flatmap(
    lambda most: st.builds(
        Claim,
        st.just(1),
        st.integers(1, 2**62),
        st.integers(1, most),
        st.just(most),
        st.integers(0, 4 * most),
        st.booleans(),
    )
)


@given(CLAIMS, st.sampled_from(How), st.booleans())
def test_every_verdict_satisfies_the_constraints_of_the_table(
    claim: Claim, how: How, begun: bool
) -> None:
    verdicts = [
        JUDGE.settled(claim, how, "why", claim.token if begun else NOTHING),
        JUDGE.failed(claim, "x"),
        JUDGE.snoozed(claim, 1),
        JUDGE.interrupted(claim, "x"),
        JUDGE.released(claim, started=begun),
    ]
    for verdict in verdicts:
        assert verdict.state in ("ready", "scheduled", "dead")
        assert 0 <= verdict.attempt <= claim.max_attempts
        assert verdict.state == "dead" or verdict.attempt < claim.max_attempts
        assert verdict.released in (claim.released, claim.released + 1)
        assert (verdict.outcome is Outcome.DEAD) == (verdict.state == "dead")
        assert verdict.attempt in (claim.attempt, claim.attempt - 1)
        assert 0 <= verdict.delay_seconds <= 64
