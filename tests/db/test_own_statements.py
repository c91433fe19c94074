"""What a session has prepared for completions is dropped by a handler, or its names are taken, where the
guard does not see it: that costs one task at most, and none of those behind it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from runner.store.tx import Tx
from runner.task import Task
from tests.db.batching import Batches, good
from tests.db.test_ahead import OK, PREPARED, RETRIED, batches
from tests.servers import Connection

__all__ = ["batches"]
pytestmark = [pytest.mark.db, pytest.mark.direct]
LEFT: list[Any] = []  # open
OURS = ["runner_complete", "runner_chain", "runner_mark"]


@pytest.fixture(autouse=True)
def hidden(batches: Batches, db: Connection) -> Iterator[None]:
    """A function that does what nobody can read in the statement that calls it."""
    db.execute(
        "create function hidden(text) returns void language plpgsql as $$ begin execute $1; end $$"
    )
    yield
    LEFT.clear()
    assert not batches.bench.conn.traces
    assert batches.bench.conn.our_prepared


@pytest.mark.parametrize("name", OURS)
def test_one_that_was_dropped_costs_one_task_at_most(batches: Batches, name: str) -> None:
    def drops(tx: Tx, task: Task) -> None:
        good(tx, task)
        tx.execute("select hidden(%s)", [f"deallocate {name}"])

    batches.run(drops, good, good, good)
    told = batches.outcomes()
    # What marks the next transaction is behind the COMMIT: nothing is lost with it.
    assert told == {0: OK if name == "runner_mark" else RETRIED, 1: OK, 2: OK, 3: OK}
    assert batches.effects() == [place for place in told if told[place] is OK]
    assert [*batches.left()] == [place for place in told if told[place] is RETRIED]


def test_one_that_was_dropped_with_nothing_to_follow(batches: Batches) -> None:
    def drops(tx: Tx, task: Task) -> None:
        good(tx, task)
        tx.execute("select hidden('deallocate runner_complete')")

    batches.run(drops)
    assert [*batches.left()] == [0]
    batches.run(good, good)
    assert batches.effects() == [0, 1]


def go_back(tx: Tx) -> None:
    with tx.transaction(force_rollback=True):
        tx.execute("select 1")


@pytest.mark.parametrize("name", OURS)
def test_a_name_that_is_taken_costs_one_task(batches: Batches, name: str) -> None:
    """Some of them are prepared by then, and their names are taken, too."""

    def takes(tx: Tx, task: Task) -> None:
        good(tx, task)
        go_back(tx)  # psycopg drops them all
        assert not tx.our_prepared
        tx.execute("select hidden(%s)", [f"prepare {name} as select 1"])

    batches.run(takes, good, good, good)
    assert batches.outcomes() == {0: RETRIED, 1: OK, 2: OK, 3: OK}
    assert batches.effects() == [1, 2, 3]


def test_a_signal_before_all_are_dropped(batches: Batches) -> None:
    """They are there still."""

    class OutOfTimeError(Exception):
        """As raised by a signal handler."""

    conn = batches.bench.conn
    real = conn._exec_command

    def strikes(command: Any, *args: Any, **kwargs: Any) -> Any:
        if command == b"DEALLOCATE ALL":
            conn._exec_command = real  # type: ignore[method-assign]
            raise OutOfTimeError
        return real(command, *args, **kwargs)

    def goes_back(tx: Tx, task: Task) -> None:
        good(tx, task)
        conn._exec_command = strikes  # type: ignore[method-assign]
        with suppress(OutOfTimeError):
            go_back(tx)
        assert tx.execute("select from pg_prepared_statements").rowcount >= len(OURS)

    batches.run(goes_back, good, good)
    assert batches.outcomes() == {0: OK, 1: OK, 2: OK}


def counted(tx: Tx, task: Task) -> None:
    tx.execute("select %s + 1", [task.id])
    good(tx, task)


def by_pipeline(tx: Tx) -> None:
    with tx.pipeline():
        tx.execute("select 1 / 0")
        tx.execute("select %s + 1", [1], prepare=True)


def by_many(tx: Tx) -> None:
    with tx.pipeline(), tx.cursor() as cursor:
        tx.execute("select 1 / 0")
        cursor.executemany("select %s + 1", [(1,), (2,)])


def by_pipeline_left_open(tx: Tx) -> None:
    LEFT.append(tx.pipeline())
    LEFT[-1].__enter__()
    tx.execute("select 1 / 0")
    tx.execute("select %s + 1", [1], prepare=True)


@pytest.mark.parametrize("way", [by_pipeline, by_many, by_pipeline_left_open])
def test_what_was_not_prepared_behind_an_error_is_not_taken_for_prepared(
    batches: Batches, way: Callable[[Tx], None]
) -> None:
    """By psycopg, which forgets it at a rollback of its own only."""

    def breaks(tx: Tx, task: Task) -> None:
        way(tx)

    batches.run(counted, breaks, counted, counted)
    assert batches.effects() == [0, 2, 3]
    assert [*batches.left()] == [1]


def test_what_psycopg_our_prepared_and_a_handler_dropped(batches: Batches) -> None:
    def drops(tx: Tx, task: Task) -> None:
        tx.execute("select hidden('deallocate all')")

    batches.run(drops, good, good, good)
    # Its own completion fails, then the first statement of the one behind it.
    assert [*batches.left()] == [0, 1]
    assert batches.effects() == [2, 3]


def test_what_is_dropped_when_psycopg_has_not_looked(batches: Batches) -> None:
    """It looks at a statement that is new to it, and only where it has prepared anything."""

    def drops(tx: Tx, task: Task) -> None:
        tx.execute("deallocate all")

    def drops_twice(tx: Tx, task: Task) -> None:
        drops(tx, task)
        drops(tx, task)

    batches.run(drops_twice)
    batches.run(*[good] * PREPARED)
    batches.bench.db.execute("truncate effect")
    batches.run(good, drops, good, good)
    assert batches.effects() == [0, 2, 3]
    assert [*batches.left()] == []


def test_what_fails_behind_a_commit_is_nobodys_failure(
    batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where somebody cancels what the session does while COMMIT waits for the disk."""
    batches.claim(good)
    monkeypatch.setattr("runner.store.sending.BOUND", [b"select 1 / 0"])
    batches.executor.work_through(batches.rows)
    monkeypatch.undo()
    assert batches.effects() == [0]
    assert batches.outcomes() == {0: OK}
