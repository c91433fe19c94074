"""The drain for tests of users: failures are judged as a worker's, and the transaction is guarded."""

from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import runner
from runner.errors import TransactionMisuse
from runner.registry import Registry
from runner.store.tx import Tx
from runner.task import Task
from runner.testing import drain
from tests.db.rehearsing import EFFECT, Stage, counts, fail, transaction, write
from tests.db.stage import add, effects, one
from tests.servers import Connection

pytestmark = pytest.mark.db


class TestFailure:
    def test_waits_for_its_backoff(self, stage: Stage) -> None:
        (task_id,) = stage.add()
        drained = stage.drain(fail)
        assert counts(drained) == {"retried": 1}
        ((task, error),) = drained.errors
        assert (task.id, str(error)) == (task_id, "no luck")
        assert stage.effects() == 0
        found = stage.row(task_id)
        assert (found.state, found.attempt, found.cause) == ("scheduled", 1, "ValueError")
        assert "no luck" in found.last_error
        assert found.run_at > found.last_failed_at
        assert counts(stage.drain(fail)) == {}

    def test_again_at_once_until_dead(self, stage: Stage) -> None:
        (task_id,) = stage.add()
        drained = stage.drain(fail, {"max_attempts": 3}, retries=True)
        assert counts(drained) == {"retried": 2, "dead": 1}
        assert [task.attempt for task, _ in drained.errors] == [1, 2, 3]
        assert (stage.row(task_id).state, stage.row(task_id).attempt) == ("dead", 3)
        assert stage.effects() == 0

    def test_again_at_once_until_it_succeeds(self, stage: Stage) -> None:
        def third_time(tx: Tx, task: Task) -> None:
            tx.execute(EFFECT, [task.attempt])
            if task.attempt < 3:
                raise runner.Retry(delay=3600)

        stage.add()
        assert counts(stage.drain(third_time, retries=True)) == {"ok": 1, "retried": 2}
        assert one(stage.conn, "select n from effect") == 3

    @pytest.mark.parametrize(
        ("error", "options", "outcome", "cause"),
        [
            (runner.Retry(delay=60), {}, "retried", "Retry"),
            (runner.Snooze(60), {}, "snoozed", "snoozed"),
            (runner.Discard("no use"), {}, "dead", "Discard"),
            (KeyError("k"), {"discard_on": LookupError}, "dead", "KeyError"),
            (KeyError("k"), {"retry_on": OSError}, "dead", "KeyError"),
            (OSError("k"), {"retry_on": OSError}, "retried", "OSError"),
            (KeyError("k"), {"max_attempts": 1}, "dead", "KeyError"),
            (SystemExit(1), {}, "retried", "SystemExit"),
        ],
    )
    def test_outcomes(
        self, stage: Stage, error: BaseException, options: Any, outcome: str, cause: str
    ) -> None:
        def raises(tx: Tx, task: Task) -> None:
            tx.execute(EFFECT, [1])
            raise error

        (task_id,) = stage.add()
        assert counts(stage.drain(raises, options)) == {outcome: 1}
        found = stage.row(task_id)
        assert found.cause == cause
        assert found.state == ("dead" if outcome == "dead" else "scheduled")
        assert found.attempt == (0 if outcome == "snoozed" else 1)
        assert stage.effects() == 0

    def test_a_swallowed_error_is_a_failure(self, stage: Stage) -> None:
        def swallow(tx: Tx, task: Task) -> None:
            tx.execute(EFFECT, [1])
            try:
                tx.execute("select 1/0")
            except psycopg.Error:
                pass

        stage.add(count=2)
        drained = stage.drain(swallow)
        assert counts(drained) == {"retried": 2}
        assert "swallowed" in str(drained.errors[0][1])
        assert stage.effects() == 0

    def test_a_deferred_constraint_is_checked_at_the_end(self, stage: Stage) -> None:
        stage.conn.execute("create temp table once (n int unique deferrable initially deferred)")

        def twice(tx: Tx, task: Task) -> None:
            tx.execute("insert into once values (1)")
            if task.params:
                tx.execute("insert into once values (1)")

        runner.enqueue(stage.conn, "t", True, priority=0)
        runner.enqueue(stage.conn, "t", False)
        drained = stage.drain(twice)
        assert counts(drained) == {"ok": 1, "retried": 1}
        assert isinstance(drained.errors[0][1], psycopg.errors.UniqueViolation)
        assert one(stage.conn, "select count(*) from once") == 1

    def test_a_task_that_vanishes_has_no_effect(self, stage: Stage) -> None:
        def vanish(tx: Tx, task: Task) -> None:
            tx.execute(EFFECT, [1])
            tx.execute("delete from runner.task where task_id = %s", [task.id])

        stage.add()
        assert counts(stage.drain(vanish, max_tasks=1)) == {"lost": 1, "left": 1}
        assert stage.effects() == 0

    @pytest.mark.parametrize("meant_for_others", [KeyboardInterrupt, pytest.fail.Exception])
    def test_what_is_meant_for_others_goes_through(
        self, stage: Stage, meant_for_others: type[BaseException]
    ) -> None:
        def interrupted(tx: Tx, task: Task) -> None:
            tx.execute(EFFECT, [1])
            raise meant_for_others("stop here")

        stage.add(count=2)
        with pytest.raises(meant_for_others):
            stage.drain(interrupted)
        assert stage.effects() == 0

    def test_a_hook_that_fails_is_told_and_leaves_no_claim(self, stage: Stage) -> None:
        tasks = Registry()
        tasks.add(fail, "t")
        tasks.on_error(lambda task, error: 1 // 0)
        (task_id,) = stage.add()
        with pytest.raises(ZeroDivisionError):
            drain(stage.conn, tasks)
        assert stage.row(task_id).attempt == 1


class TestTransaction:
    @pytest.mark.parametrize(
        "end",
        [
            lambda tx: tx.commit(),
            lambda tx: tx.rollback(),
            lambda tx: tx.close(),
            lambda tx: tx.execute("commit"),
            lambda tx: tx.execute("/* x */ rollback"),
            lambda tx: tx.execute("end"),
        ],
    )
    def test_ends_are_refused(self, stage: Stage, end: Any) -> None:
        refused: list[TransactionMisuse] = []

        def handler(tx: Tx, task: Task) -> None:
            tx.execute(EFFECT, [1])
            try:
                end(tx)
            except TransactionMisuse as error:
                refused.append(error)
                raise

        stage.add()
        drained = stage.drain(handler)
        assert counts(drained) == {"retried": 1}
        assert [error for _, error in drained.errors] == refused
        assert "in a handler: the runner ends this transaction" in str(refused[0])
        assert stage.effects() == 0

    def test_a_block_is_a_savepoint(self, stage: Stage) -> None:
        def handler(tx: Tx, task: Task) -> None:
            with tx.transaction():
                tx.execute(EFFECT, [1])
            with tx.transaction(force_rollback=True):
                tx.execute(EFFECT, [2])

        stage.add()
        assert counts(stage.drain(handler)) == {"ok": 1}
        assert stage.effects() == 1

    def test_the_connection_is_as_it_was(self, stage: Stage) -> None:
        notices: list[Any] = []
        conn = stage.conn
        conn.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        conn.row_factory = dict_row
        conn.prepare_threshold = 0
        conn.execute("create temp table mine (n int)")
        conn.execute("set search_path = public, pg_catalog")
        for n in range(3):
            conn.execute("select %s::int", [n])

        def handler(tx: Tx, task: Task) -> None:
            tx.row_factory = psycopg.rows.scalar_row
            tx.execute("select %s::int", [7])
            tx.execute("set local work_mem = '1MB'")

        conn.execute("insert into runner.task (task_type) values ('t'), ('t')")
        before = conn.info.transaction_status
        assert counts(stage.drain(handler)) == {"ok": 2}
        assert conn.info.transaction_status == before
        assert (conn.row_factory, conn.prepare_threshold) == (dict_row, 0)
        assert conn.execute("show search_path").fetchone() == {"search_path": "public, pg_catalog"}
        conn.execute("select n from mine")
        conn.execute("do $$ begin raise notice 'heard'; end $$")
        assert notices == ["heard"]
        conn.row_factory = psycopg.rows.tuple_row

    def test_without_prepared_statements(self, stage: Stage) -> None:
        stage.conn.prepare_threshold = None
        stage.add(count=3)
        assert counts(stage.drain(write)) == {"ok": 3}
        assert one(stage.conn, "select count(*) from pg_prepared_statements") == 0

    def test_two_drains_of_one_connection(self, stage: Stage) -> None:
        stage.add()
        assert counts(stage.drain(write)) == {"ok": 1}
        stage.add()
        assert counts(stage.drain(write)) == {"ok": 1}


def test_an_end_behind_another_statement_is_refused(db: Connection, db_url: str) -> None:
    """Before any of it has run: the test's own transaction stays what it was."""
    db.execute("create table effect (n int)")
    for ending in ("commit", "commit; begin"):
        tasks = Registry()

        def handler(tx: Tx, task: Task, ending: str = ending) -> None:
            tx.execute(f"insert into effect values (1); {ending}")

        tasks.add(handler, "t")
        with transaction(db_url) as conn:
            add(conn)
            drained = drain(conn, tasks)
            assert counts(drained) == {"retried": 1}, ending
            assert isinstance(drained.errors[0][1], TransactionMisuse)
    assert effects(db) == 0
    assert one(db, "select count(*) from runner.worker") == 0


def test_an_idle_connection_without_autocommit_commits(db: Connection, db_url: str) -> None:
    db.execute("create table effect (n int)")
    add(db)
    tasks = Registry()
    tasks.add(write, "t")
    with transaction(db_url) as conn:
        assert counts(drain(conn, tasks)) == {"ok": 1}
    assert effects(db) == 1
