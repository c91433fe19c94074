"""What a session has prepared for completions is dropped by a handler, or its names are taken, where the
guard does not see it: that costs one task at most, and none of those behind it."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from runner.store.tx import Tx
from runner.task import Task
from tests.db.batching import Batches, good
from tests.db.test_ahead import OK, RETRIED, batches
from tests.servers import Connection

__all__ = ["batches"]
pytestmark = [pytest.mark.db, pytest.mark.direct]
OURS = ["runner_complete", "runner_chain", "runner_mark"]


@pytest.fixture(autouse=True)
def hidden(batches: Batches, db: Connection) -> Iterator[None]:
    """A function that does what nobody can read in the statement that calls it."""
    db.execute(
        "create function hidden(text) returns void language plpgsql as $$ begin execute $1; end $$"
    )
    yield
    assert not batches.bench.conn.traces
    assert batches.bench.conn.has_prepared


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
        assert not tx.has_prepared
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
