"""Each case of bad input: one clear line, the right exit code, no traceback; and nothing is lost."""

from pathlib import Path

import psycopg
import pytest

from runner.embedded import Embedded
from tests.bad_input.lines import CASES
from tests.bad_input.places import answers, faults, places
from tests.commands import Result

pytestmark = [pytest.mark.db, pytest.mark.process, pytest.mark.timeout(400)]


def test_one_clear_line(server: Embedded, tmp_path: Path) -> None:
    """All of them at once; after them the queue is as it was, but for the task that had a handler."""
    with places(server) as urls:
        found = list(answers(urls, tmp_path))
        with psycopg.connect(urls["db"]) as conn:
            rows = conn.execute(
                "select task_type, state, count(*) from runner.task group by 1, 2 order by 1, 2"
            ).fetchall()
    wrong = {
        (case.kind, *case.words): (faulty, result.stderr)
        for case, result, values in found
        if (faulty := faults(case, result, values))
    }
    assert wrong == {}
    assert len(found) == len(CASES)
    assert rows == [("hello", "ready", 1), ("waits", "ready", 1), ("waits", "running", 1)]


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
