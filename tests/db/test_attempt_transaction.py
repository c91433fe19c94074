"""What a handler does to its transaction, to its lease and to its connection, and what comes of it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from runner.errors import Snooze, Stopped, TimeLimit
from runner.store.tx import Tx
from runner.task import Task
from runner.wire import Outcome
from tests.db.attempting import Bench, failed, good, raises
from tests.db.stage import INSERT, effects, one

pytestmark = pytest.mark.db


class TestTheTransaction:
    """What a handler does to the transaction that deletes its task."""

    def test_a_swallowed_error_is_no_success(self, bench: Bench) -> None:
        def handler(tx: Tx, task: Task) -> None:
            tx.execute(INSERT)
            try:
                tx.execute("select 1/0")
            except psycopg.Error:
                pass

        error = failed(bench, handler, "SwallowedError")
        assert "swallowed a database error" in error

    def test_an_error_in_a_savepoint_may_be_swallowed(self, bench: Bench) -> None:
        def handler(tx: Tx, task: Task) -> None:
            tx.execute(INSERT)
            try:
                with tx.transaction():
                    tx.execute("select 1/0")
            except psycopg.Error:
                pass

        assert bench.run(handler) == (Outcome.OK, None)
        assert effects(bench.db) == 1

    @pytest.mark.parametrize("text", ["commit", "rollback", "end", "abort", "-- x\ncommit"])
    @pytest.mark.parametrize("swallowed", [False, True])
    def test_a_refused_end(self, bench: Bench, text: str, swallowed: bool) -> None:
        def handler(tx: Tx, task: Task) -> None:
            tx.execute(INSERT)
            try:
                tx.execute(text)
            except Exception:
                if not swallowed:
                    raise

        if swallowed:  # nothing was ended: that is as good as not having tried
            assert bench.run(handler) == (Outcome.OK, None)
            assert effects(bench.db) == 1
        else:
            assert "the runner ends this transaction" in failed(bench, handler, "TransactionMisuse")

    @pytest.mark.parametrize(
        "statements",
        [
            ["insert into effect values (1); commit"],
            ["select 1; rollback"],
            ["insert into effect values (1); commit; begin"],
            ["insert into effect values (1); commit; begin", INSERT],
            ["select 1; rollback; begin; insert into effect values (1)"],
        ],
        ids=str,
    )
    @pytest.mark.parametrize("key", [None, "key"])
    def test_an_end_behind_another_statement_is_misuse(
        self, bench: Bench, statements: list[str], key: str | None
    ) -> None:
        def handler(tx: Tx, task: Task) -> None:
            for statement in statements:
                tx.execute(statement)

        outcome, _ = bench.run(handler, {"idempotency_key": key} if key else {})
        assert outcome is Outcome.RETRIED
        assert bench.row.cause == "TransactionMisuse"
        assert effects(bench.db) <= 1  # what it committed itself, and never the rest
        assert one(bench.db, "select count(*) from runner.receipt") == 0
        assert bench.run(good) == (Outcome.OK, None)

    def test_serialization_failure_at_the_end_is_a_failure(self, bench: Bench, db_url: str) -> None:
        bench.db.execute("insert into effect values (10), (20)")

        def handler(tx: Tx, task: Task) -> None:
            tx.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            tx.execute("select sum(n) from effect")
            tx.execute(INSERT)
            with psycopg.connect(db_url) as other:
                other.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
                other.execute("select sum(n) from effect")
                other.execute("insert into effect values (2)")

        outcome, _ = bench.run(handler)
        assert outcome is Outcome.RETRIED
        assert bench.row.cause == "psycopg.errors.SerializationFailure"
        assert one(bench.db, "select count(*) from effect where n = 1") == 0

    def test_deferred_constraint_at_commit_is_a_failure(self, bench: Bench) -> None:
        bench.db.execute("alter table effect add unique (n) deferrable initially deferred")

        def handler(tx: Tx, task: Task) -> None:
            tx.execute("insert into effect values (7), (7)")

        error = failed(bench, handler, "psycopg.errors.UniqueViolation")
        assert "23505" in error

    def test_a_pipeline_that_is_left_open(self, bench: Bench) -> None:
        opened = []

        def handler(tx: Tx, task: Task) -> None:
            opened.append(tx.pipeline())
            opened[-1].__enter__()
            tx.execute(INSERT)

        assert bench.run(handler) == (Outcome.OK, None)
        assert effects(bench.db) == 1
        assert bench.row is None
        assert bench.run(good) == (Outcome.OK, None)

    def test_a_block_that_is_left_open(self, bench: Bench) -> None:
        def handler(tx: Tx, task: Task) -> None:
            tx.execute(INSERT)
            psycopg.Transaction(tx).__enter__()
            tx.execute("select 1")

        assert bench.run(handler) == (Outcome.OK, None)
        assert effects(bench.db) == 1
        assert bench.run(good) == (Outcome.OK, None)

    def test_psycopgs_own_block_as_the_outermost_is_misuse(self, bench: Bench) -> None:
        def handler(tx: Tx, task: Task) -> None:
            with psycopg.Transaction(tx):
                tx.execute(INSERT)

        assert "tx.transaction()" in failed(bench, handler, "TransactionMisuse")

    @pytest.mark.parametrize("key", [None, "key"])
    def test_a_transaction_begun_below_psycopg_is_misuse(
        self, bench: Bench, key: str | None
    ) -> None:
        def handler(tx: Tx, task: Task) -> None:
            tx.pgconn.exec_(b"begin; insert into effect values (1)")

        outcome, _ = bench.run(handler, {"idempotency_key": key} if key else {})
        assert outcome is Outcome.RETRIED
        assert bench.row.cause == "TransactionMisuse"
        assert effects(bench.db) == 0
        assert bench.run(good) == (Outcome.OK, None)


class TestALostLease:
    """Nothing is written by who is not the owner any more."""

    @pytest.mark.parametrize("ending", [good, raises(ValueError("no")), raises(Snooze(5))])
    def test_nothing_is_written(self, bench: Bench, ending: Callable[..., Any]) -> None:
        def handler(tx: Tx, task: Task) -> None:
            bench.db.execute("update runner.task set fence = fence + 1, cause = 'another'")
            ending(tx, task)

        outcome, _ = bench.run(handler)
        assert outcome is Outcome.LOST
        assert (bench.row.state, bench.row.cause) == ("running", "another")
        assert effects(bench.db) == 0

    def test_a_task_cancelled_meanwhile(self, bench: Bench) -> None:
        def handler(tx: Tx, task: Task) -> None:
            tx.execute(INSERT)
            bench.db.execute("delete from runner.task")

        assert bench.run(handler)[0] is Outcome.LOST
        assert effects(bench.db) == 0

    def test_late_but_still_ours_is_done(self, bench: Bench) -> None:
        def handler(tx: Tx, task: Task) -> None:
            bench.db.execute("update runner.worker set lease_until = '2001-01-01'")
            tx.execute(INSERT)

        assert bench.run(handler) == (Outcome.OK, None)


class TestKeys:
    """A keyed task leaves a receipt; one whose key has a receipt leaves nothing."""

    @pytest.mark.parametrize("handler", [good, lambda tx, task: None], ids=["touched", "untouched"])
    def test_a_receipt_with_the_completion(self, bench: Bench, handler: Any) -> None:
        assert bench.run(handler, {"idempotency_key": "k"}) == (Outcome.OK, None)
        assert one(bench.db, "select idempotency_key from runner.receipt") == "k"
        assert bench.row is None

    def test_no_receipt_with_a_failure(self, bench: Bench) -> None:
        bench.run(raises(ValueError()), {"idempotency_key": "k"})
        assert one(bench.db, "select count(*) from runner.receipt") == 0

    @pytest.mark.parametrize("handler", [good, lambda tx, task: None], ids=["touched", "untouched"])
    def test_done_before_undoes_this_run(self, bench: Bench, handler: Any) -> None:
        bench.db.execute("insert into runner.receipt values ('k', 1, 't')")
        assert bench.run(handler, {"idempotency_key": "k"}) == (Outcome.OK, None)
        assert bench.row is None
        assert effects(bench.db) == 0
        assert bench.run(good) == (Outcome.OK, None)


class TestInterrupts:
    """Our own exceptions, told apart from the handler's; raised nowhere but inside of it."""

    def test_a_stop_releases(self, bench: Bench) -> None:
        bench.stopping = True

        def handler(tx: Tx, task: Task) -> None:
            tx.execute(INSERT)
            bench.interrupts._trap(15, None)

        outcome, _ = bench.run(handler)
        assert outcome is Outcome.RELEASED
        assert (bench.row.state, bench.row.attempt, bench.row.released) == ("ready", 0, 1)
        assert effects(bench.db) == 0

    def test_term_without_a_stop_is_an_interruption(self, bench: Bench) -> None:
        outcome, _ = bench.run(lambda tx, task: bench.interrupts._trap(15, None))
        assert outcome is Outcome.RELEASED
        assert (bench.row.state, bench.row.attempt, bench.row.released) == ("scheduled", 0, 1)

    def test_the_time_limit_is_a_failure(self, bench: Bench) -> None:
        bench.claimed()
        bench.task.limit_at = 1.0  # long past
        outcome, _ = bench.again(lambda tx, task: bench.interrupts._trap(15, None))
        assert outcome is Outcome.RETRIED
        assert (bench.row.cause, bench.row.attempt) == ("time limit", 1)

    def test_a_stop_that_the_handler_survives_is_done(self, bench: Bench) -> None:
        bench.stopping = True

        def handler(tx: Tx, task: Task) -> None:
            try:
                bench.interrupts._trap(15, None)
            except Stopped:
                tx.execute(INSERT)

        assert bench.run(handler) == (Outcome.OK, None)

    def test_a_stop_in_other_clothes_is_a_stop(self, bench: Bench) -> None:
        bench.stopping = True

        def handler(tx: Tx, task: Task) -> None:
            try:
                bench.interrupts._trap(15, None)
            except BaseException as error:
                raise RuntimeError("my own") from error

        assert bench.run(handler)[0] is Outcome.RELEASED

    def test_raised_once_and_never_outside(self, bench: Bench) -> None:
        def handler(tx: Tx, task: Task) -> None:
            with pytest.raises(Stopped):
                bench.interrupts._trap(15, None)
            bench.interrupts._trap(15, None)  # the second one is swallowed

        bench.interrupts._trap(15, None)
        assert bench.run(handler) == (Outcome.OK, None)
        bench.interrupts._trap(15, None)

    def test_a_time_limit_raised_by_the_handler_itself(self, bench: Bench) -> None:
        assert "TimeLimit" in failed(bench, raises(TimeLimit("theirs")), "time limit")


LIMITS = (
    "select current_setting('statement_timeout'), current_setting('lock_timeout'),"
    " current_setting('idle_in_transaction_session_timeout'), current_setting('plan_cache_mode')"
)
FREE = ("0", "0", "0", "auto")


@pytest.mark.direct
class TestTheLimits:
    """Handlers are bounded by their own time limit, our statements by our timeouts."""

    @pytest.mark.parametrize("ours", [True, False], ids=["session", "shared session"])
    @pytest.mark.parametrize("error", [None, ValueError("no")], ids=["good", "failing"])
    def test_off_in_handlers_and_on_between_them(
        self, bench: Bench, ours: bool, error: Exception | None
    ) -> None:
        bench.conn.ours = ours
        seen = []

        def handler(tx: Tx, task: Task) -> None:
            seen.append(tx.execute(LIMITS).fetchone())
            if error is not None:
                raise error

        before = bench.conn.execute(LIMITS).fetchone()
        assert before is not None
        assert "0" not in before
        for _ in range(3):
            bench.run(handler)
            assert bench.conn.execute(LIMITS).fetchone() == before
        assert seen == [FREE] * 3

    def test_a_handler_that_takes_its_transaction_back(self, bench: Bench) -> None:
        def handler(tx: Tx, task: Task) -> None:
            tx.execute("savepoint mine")
            tx.execute("rollback to mine")
            assert tx.execute(LIMITS).fetchone() == FREE

        assert bench.run(handler) == (Outcome.OK, None)

    @pytest.mark.parametrize("text", ["deallocate all", "deallocate runner_complete"])
    def test_a_handler_that_forgets_what_is_prepared(self, bench: Bench, text: str) -> None:
        for _ in range(2):  # the first finds a session that is not known to be clean
            assert bench.run(good) == (Outcome.OK, None)

        def handler(tx: Tx, task: Task) -> None:
            tx.execute(INSERT)
            tx.execute(text)

        for each in (handler, good, handler, good, good):
            assert bench.run(each) == (Outcome.OK, None)
        assert effects(bench.db) == 7

    def test_a_handler_that_rolls_back_to_a_savepoint(self, bench: Bench) -> None:
        """Behind that psycopg drops all that the session has prepared, once it has prepared anything."""
        assert bench.run(good) == (Outcome.OK, None)

        def handler(tx: Tx, task: Task) -> None:
            for _ in range(10):
                tx.execute(INSERT)  # often enough to be prepared
            with suppress(psycopg.Error), tx.transaction():
                tx.execute("select 1 / 0")
            tx.execute("select 1")

        for each in (handler, good, handler, good):
            assert bench.run(each) == (Outcome.OK, None)

    def test_the_first_completion_is_refused_and_the_second_is_not(self, bench: Bench) -> None:
        def robbed(tx: Tx, task: Task) -> None:
            tx.execute(INSERT)
            bench.db.execute("update runner.task set fence = fence + 1")

        assert bench.run(robbed)[0] is Outcome.LOST
        assert bench.run(good) == (Outcome.OK, None)
        assert effects(bench.db) == 1
