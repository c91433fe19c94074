"""Each case of bad input: one clear line, the right exit code, no traceback; and nothing is lost."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from runner.embedded import Embedded
from tests.bad_input.lines import CASES, Case
from tests.bad_input.places import answers, faults, places
from tests.commands import Result

pytestmark = [pytest.mark.db, pytest.mark.process, pytest.mark.timeout(400)]

Answers = list[tuple[Case, Result, dict[str, Any]]]


@pytest.fixture(scope="module")
def told(server: Embedded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    """All of them at once; after them the queue is as it was, but for the task that had a handler."""
    with places(server) as urls:
        found = list(answers(urls, tmp_path_factory.mktemp("bad")))
        with psycopg.connect(urls["db"]) as conn:
            rows = conn.execute(
                "select task_type, state, count(*) from runner.task group by 1, 2 order by 1, 2"
            ).fetchall()
        assert rows == [("hello", "ready", 1), ("waits", "ready", 1), ("waits", "running", 1)]
        yield found


@pytest.mark.parametrize(
    "number", range(len(CASES)), ids=[f"{c.kind}-{n}" for n, c in enumerate(CASES)]
)
def test_one_clear_line(number: int, told: Answers) -> None:
    case, result, values = told[number]
    assert faults(case, result, values) == [], (case.words, result.stderr)


def test_the_check_finds_what_it_is_for() -> None:
    case = CASES[0]
    good = Result([], 2, "", f"runner: error: {case.told}\nhint: see\n")
    assert faults(case, good, {}) == []
    for bad in (
        Result([], 1, "", good.stderr),
        Result([], 2, "", "runner: error: something\n"),
        Result([], 2, "", f"Traceback\n{good.stderr}"),
        Result([], 2, "", f"{good.stderr}hint: and more\nmore\n"),
        Result([], 2, "said", good.stderr),
    ):
        assert faults(case, bad, {}) != []
