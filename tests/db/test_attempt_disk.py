"""A server without room on its disk is no failure of the task, wherever that shows."""

import pytest

from runner.operating.interruptions import is_one
from runner.store.tx import Tx
from runner.task import Task
from runner.wire import Outcome
from tests.db.attempting import Bench, good
from tests.db.stage import INSERT, effects

pytestmark = pytest.mark.db
FULL = "raise 'no space left on device' using errcode = 'disk_full'"
# Deferred: it fails only when the transaction is about to be committed.
AT_COMMIT = f"""create function no_room() returns trigger language plpgsql as
                $$ begin {FULL}; end $$;
                create constraint trigger no_room after insert on effect
                    deferrable initially deferred for each row execute function no_room()"""


def in_a_statement(tx: Tx, task: Task) -> None:
    tx.execute(INSERT)
    tx.execute(f"do $$ begin {FULL}; end $$")


def in_a_savepoint(tx: Tx, task: Task) -> None:
    tx.execute(INSERT)
    with tx.transaction():
        tx.execute(f"do $$ begin {FULL}; end $$")


def refunded(bench: Bench) -> None:
    row = bench.row
    assert (row.state, row.attempt, row.released) == ("scheduled", 0, 1)
    assert row.last_failed_at is None
    assert effects(bench.db) == 0


@pytest.mark.parametrize("handler", [in_a_statement, in_a_savepoint])
def test_in_the_handler(bench: Bench, handler: object) -> None:
    outcome, verdict = bench.run(handler)  # type: ignore[arg-type]
    assert outcome is Outcome.RELEASED
    assert verdict is not None
    assert verdict.cause == "disk full"
    assert is_one(verdict.cause)  # what `todo` lists
    refunded(bench)
    assert bench.run(good) == (Outcome.OK, None)  # under the same identity


def test_at_the_commit(bench: Bench) -> None:
    bench.db.execute(AT_COMMIT)
    outcome, _ = bench.run(good)
    assert outcome is Outcome.RELEASED
    refunded(bench)
    bench.db.execute("drop trigger no_room on effect")
    assert bench.run(good) == (Outcome.OK, None)


def test_a_task_that_fills_the_disk_each_time_comes_to_an_end(bench: Bench) -> None:
    """Three interruptions for each attempt: whoever is interrupted for ever may be the reason."""
    outcome, verdict = bench.run(in_a_statement, {"max_attempts": 1, "released": 3})
    assert outcome is Outcome.DEAD
    assert verdict is not None
    assert (verdict.cause or "").startswith("interrupted too often")
