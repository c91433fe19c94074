"""The sentence of the log for each way in which a claim can end."""

import pytest

from runner.saying import say
from runner.wire import Outcome


@pytest.mark.parametrize(
    ("outcome", "level", "text"),
    [
        (Outcome.OK, "debug", "task 7 (mail) done"),
        (Outcome.RETRIED, "info", "task 7 (mail) failed and will be retried: OSError: no"),
        (Outcome.DEAD, "error", "task 7 (mail) is dead after 2 attempts: OSError: no"),
        (Outcome.RELEASED, "info", "task 7 (mail) was given back: OSError: no"),
        (Outcome.SNOOZED, "info", "task 7 (mail) was put off: OSError: no"),
        (Outcome.LOST, "warning", "task 7 (mail) lost its lease: nothing was written: OSError: no"),
    ],
)
def test_every_outcome_has_its_sentence(outcome: Outcome, level: str, text: str) -> None:
    said = say("mail", 7, outcome, 2, None if outcome is Outcome.OK else "OSError: no")
    assert (said.level, said.message) == (level, text)


def test_no_outcome_is_left_out() -> None:
    for outcome in set(Outcome) - {Outcome.NONE}:
        assert say("t", 1, outcome, 1).event
