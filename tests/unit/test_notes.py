"""What the fields of a task do not say by themselves."""

from typing import Any

import pytest

from runner.operating.notes import EARLIER, FORMER, is_of, notes


def task(**fields: Any) -> dict[str, Any]:
    one = {"released": 0, "attempt": 1, "max_attempts": 3, "cause": None, "last_error": None}
    return one | fields


def test_interrupted_says_how_often() -> None:
    (told,) = notes(task(released=2, cause="connection lost"))
    assert told == "interrupted 2 times without charge (dead after 9), last: connection lost"
    assert notes(task(released=2, cause="stopped")) == []


def test_an_error_of_before_is_called_that() -> None:
    failed = {"cause": "app.Odd", "last_error": "Odd: x\nmore"}
    assert notes(task(**failed)) == []
    assert notes(task(**failed, attempt=0)) == [FORMER]
    assert notes(task(**failed | {"cause": "SIGKILL"})) == [EARLIER]


@pytest.mark.parametrize(
    ("cause", "error", "same"),
    [
        ("ValueError", "ValueError", True),
        ("a.b.<locals>.Odd", "Odd: x", True),
        ("time limit", "TimeLimit: 3 s", True),
        ("ValueError", "ValueErrors: x", False),
        ("lease lost", "ValueError: x", False),
    ],
)
def test_of_the_same_attempt(cause: str, error: str, same: bool) -> None:
    assert is_of(cause, error) is same
