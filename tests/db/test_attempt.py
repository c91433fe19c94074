"""One attempt at one task: however its handler ends, the row says so, and the effect goes with it."""

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

import pytest

from runner.errors import Discard, LeaseLost, Retry, Snooze, Stopped
from runner.handling.session import UNSTORABLE
from runner.store.tx import Tx
from runner.task import Task
from runner.text import ERROR_LIMIT
from runner.wire import Outcome
from tests.db.attempting import Bench, failed, good, raises
from tests.db.stage import INSERT, add, effects, one

pytestmark = pytest.mark.db


def test_a_return_is_success(bench: Bench) -> None:
    assert bench.run(good) == (Outcome.OK, None)
    assert bench.row is None
    assert effects(bench.db) == 1
    # In this order: the process is put back, then the parent is told, then the claim is ended.
    assert bench.told == ["restored", "ending"]


def test_a_return_without_a_statement_is_success(bench: Bench) -> None:
    assert bench.run(lambda tx, task: 5) == (Outcome.OK, None)
    assert bench.row is None


class Own(BaseException):
    pass


ERRORS = {
    "ValueError": ValueError("no"),
    "KeyboardInterrupt": KeyboardInterrupt("theirs"),
    "GeneratorExit": GeneratorExit(),
    "asyncio.exceptions.CancelledError": asyncio.CancelledError(),
    "tests.db.test_attempt.Own": Own("mine"),
    "Stopped": Stopped("not ours"),
    "LeaseLost": LeaseLost("not ours"),
    "MemoryError": MemoryError(),
    "RecursionError": RecursionError("deep"),
    "StopIteration": StopIteration(),
    "ExceptionGroup": ExceptionGroup("many", [ValueError("one")]),
}


@pytest.mark.parametrize("cause", ERRORS)
def test_every_exception_is_a_failed_attempt(bench: Bench, cause: str) -> None:
    error = failed(bench, raises(ERRORS[cause]), cause)
    assert error.startswith(cause.rpartition(".")[2])


@pytest.mark.parametrize("code", [(), (0,), ("text",), (3,), (None,)], ids=str)
def test_sys_exit_is_a_failed_attempt(bench: Bench, code: tuple[Any, ...]) -> None:
    def handler(tx: Tx, task: Task) -> None:
        tx.execute(INSERT)
        sys.exit(*code)

    error = failed(bench, handler, "SystemExit")
    assert error.startswith("SystemExit")
    assert code in ((), (None,)) or str(code[0]) in error


def test_an_exception_out_of_a_finally(bench: Bench) -> None:
    def handler(tx: Tx, task: Task) -> None:
        try:
            raise ValueError("first")
        finally:
            raise KeyError("second")

    assert "KeyError" in failed(bench, handler, "KeyError")


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


TEXTS: dict[str, BaseException] = {
    "NUL": ValueError("bad \0 byte"),
    "surrogate": RuntimeError("name \udce9"),
    "huge": RuntimeError("x" * 20_000_000),
    "many bytes": RuntimeError("\U0001f600" * 100_000),
    "no text": Hostile(),
    "NUL in the name": type("Bad\\x", (Exception,), {"__module__": "a\0b"})("x"),
    "bytes": ValueError(b"\xff\xfe"),
    "quotes": ValueError("%s ' \" \\ $1 {}"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_any_error_text_is_stored(bench: Bench, name: str) -> None:
    outcome, _ = bench.run(raises(TEXTS[name]))
    assert outcome is Outcome.RETRIED
    assert bench.row.last_error
    assert bench.row.last_error != UNSTORABLE
    assert len(bench.row.last_error) <= ERROR_LIMIT
    assert bench.run(good) == (Outcome.OK, None)


def test_text_that_cannot_be_stored_after_all_leaves_a_fixed_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("\0", "\ud800"):
        monkeypatch.setattr("runner.handling.attempt.error_text", lambda *_, it=text, **__: it)
        outcome, _ = bench.run(raises(ValueError("x")))
        assert outcome is Outcome.RETRIED
        assert (bench.row.last_error, bench.row.state) == (UNSTORABLE, "scheduled")


def test_details_of_database_errors_stay_out(bench: Bench) -> None:
    def handler(tx: Tx, task: Task) -> None:
        tx.execute("create temp table person (name text primary key)")
        tx.execute("insert into person values ('S3cret'), ('S3cret')")

    assert "S3cret" not in failed(bench, handler, "psycopg.errors.UniqueViolation")


class TestWhatAHandlerAsksFor:
    """Retry, Snooze, Discard, and the lists of its registration."""

    def wait(self, bench: Bench) -> float:
        query = "select extract(epoch from run_at - clock_timestamp())::float8 from runner.task"
        return float(one(bench.db, f"{query} where task_id = %s", bench.claim.task_id))

    def test_retry_with_a_delay(self, bench: Bench) -> None:
        outcome, _ = bench.run(raises(Retry("busy", delay=500)))
        assert (outcome, bench.row.attempt) == (Outcome.RETRIED, 1)
        assert 498 < self.wait(bench) <= 500
        assert bench.row.last_error == "Retry: busy"

    def test_retry_without_one_waits_by_the_backoff(self, bench: Bench) -> None:
        bench.run(raises(Retry()), {"attempt": 3})
        assert 7 < self.wait(bench) <= 8

    def test_attempt_5000_waits_for_the_cap(self, bench: Bench) -> None:
        bench.run(raises(ValueError()), {"attempt": 4999, "max_attempts": 10_000})
        assert (bench.row.state, bench.row.attempt) == ("scheduled", 5000)
        assert 63 < self.wait(bench) <= 64

    def test_snooze_refunds(self, bench: Bench) -> None:
        outcome, _ = bench.run(raises(Snooze(100)), {"attempt": 4})
        assert (outcome, bench.row.attempt, bench.row.state) == (Outcome.SNOOZED, 4, "scheduled")
        assert bench.row.last_failed_at is None
        assert effects(bench.db) == 0
        assert 98 < self.wait(bench) <= 100

    def test_discard_is_death(self, bench: Bench) -> None:
        outcome, _ = bench.run(raises(Discard("no such user")))
        assert (outcome, bench.row.state, bench.row.attempt) == (Outcome.DEAD, "dead", 1)
        assert bench.row.last_error == "Discard: no such user"

    def test_the_last_attempt_is_death(self, bench: Bench) -> None:
        outcome, _ = bench.run(raises(ValueError("no")), {"attempt": 4})
        assert (outcome, bench.row.state, bench.row.attempt) == (Outcome.DEAD, "dead", 5)

    @pytest.mark.parametrize(
        ("error", "dead"),
        [(KeyError(), True), (IndexError(), True), (ValueError(), False), (Retry(), False)],
    )
    def test_discard_on(self, bench: Bench, error: Exception, dead: bool) -> None:
        bench.run(raises(error), discard_on=LookupError)
        assert (bench.row.state == "dead") is dead

    @pytest.mark.parametrize(
        ("error", "dead"),
        [(KeyError(), False), (ValueError(), True), (Retry(), False), (SystemExit(1), True)],
    )
    def test_retry_on(self, bench: Bench, error: BaseException, dead: bool) -> None:
        bench.run(raises(error), retry_on=(LookupError, OSError))
        assert (bench.row.state == "dead") is dead

    @pytest.mark.parametrize("kind", [Retry, Snooze])
    @pytest.mark.parametrize("delay", [float("nan"), float("inf"), 1e300, "soon", [], 10**400])
    def test_a_delay_that_is_none(self, bench: Bench, kind: Any, delay: Any) -> None:
        error = kind(delay=delay)
        outcome, _ = bench.run(raises(error))
        assert outcome is Outcome.RETRIED
        assert bench.row.cause == kind.__name__
        assert "delay" in bench.row.last_error
        assert 0 < self.wait(bench) <= 1.1  # the backoff

    @pytest.mark.parametrize("kind", [Retry, Snooze])
    def test_a_delay_that_is_past_is_now(self, bench: Bench, kind: Any) -> None:
        bench.run(raises(kind(delay=-3600)))
        assert bench.row.state == "scheduled"
        assert -5 < self.wait(bench) <= 0

    def test_an_exception_of_theirs_that_forgot_its_delay(self, bench: Bench) -> None:
        class Careless(Retry):
            def __init__(self) -> None:
                pass

        outcome, _ = bench.run(raises(Careless()))
        assert outcome is Outcome.RETRIED


@pytest.mark.parametrize("params", ["(repeat('[', 3000) || repeat(']', 3000))::jsonb", "'1e6000'"])
def test_params_that_cannot_be_read_are_a_failure(bench: Bench, params: str) -> None:
    """PostgreSQL takes what Python does not: it is the task's affair, not its worker's."""
    add(bench.db)
    bench.db.execute(f"update runner.task set params = {params}")
    with suppress(RecursionError, ValueError):
        json.loads(one(bench.db, "select params::text from runner.task"))
        pytest.skip("this Python reads it")
    found = bench.claimer.take(full=True)
    assert found is not None
    bench.claim, bench.task = found.claim, found.task(None)
    called: list[Task] = []
    outcome, _ = bench.again(lambda tx, task: called.append(task))
    assert outcome is Outcome.RETRIED
    said = "select state, attempt, cause, left(last_error, 18) from runner.task"
    cause = "UnreadableParams"
    assert bench.db.execute(said).fetchone() == ("scheduled", 1, cause, f"{cause}: ")
    assert not called
