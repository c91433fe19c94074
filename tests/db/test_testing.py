"""The drain for tests of users: a worker's rules, in this process, on the test's own connection."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import psycopg
import pytest

import runner
from runner.errors import UsageError
from runner.registry import Registry
from runner.store.tx import Tx
from runner.task import Task
from runner.testing import drain
from tests.db.rehearsing import EFFECT, Stage, counts, fail, transaction, write
from tests.db.stage import Claimer, add, effects, one, row
from tests.servers import Connection

pytestmark = pytest.mark.db


class TestSuccess:
    def test_effect_and_deletion(self, stage: Stage) -> None:
        (task_id,) = stage.add()
        assert counts(stage.drain(write)) == {"ok": 1}
        assert stage.row(task_id) is None
        assert stage.effects() == 1
        assert effects(stage.db) == (0 if stage.inside else 1)

    def test_nothing_to_do(self, stage: Stage) -> None:
        assert counts(stage.drain(write)) == {}

    def test_a_handler_that_sends_nothing(self, stage: Stage) -> None:
        stage.add(count=3)
        assert counts(stage.drain(lambda tx, task: None)) == {"ok": 3}
        assert one(stage.conn, "select count(*) from runner.task") == 0

    def test_what_a_handler_is_given(self, stage: Stage) -> None:
        seen: list[Task] = []

        def look(tx: Tx, task: Task) -> None:
            assert 59 < (task.remaining() or 0) <= 60
            task.progress(1, 2)
            seen.append(task)

        stage.conn.execute(
            "insert into runner.task (task_type, params, queue) values ('t', '[1]', 'q')"
        )
        stage.drain(look, {"timeout": 60, "max_attempts": 7})
        (task,) = seen
        assert (task.type, task.params, task.queue) == ("t", [1], "q")
        assert (task.attempt, task.max_attempts, task.key) == (1, 7, None)
        assert task.fence > 0

    def test_a_new_instance_of_a_class_and_params_that_do_not_fit(self, stage: Stage) -> None:
        tasks = Registry()

        @tasks.task
        @dataclass
        class Double:
            n: int

            def process(self, tx: Tx, task: Task) -> None:
                tx.execute(EFFECT, [2 * self.n])

        runner.enqueue(stage.conn, Double(21))
        runner.enqueue(stage.conn, "Double", {"m": 1})
        drained = drain(stage.conn, tasks)
        assert counts(drained) == {"ok": 1, "retried": 1}
        ((_, error),) = drained.errors
        assert isinstance(error, runner.InvalidParams)
        assert one(stage.conn, "select n from effect") == 42

    def test_follow_ups_run_if_and_only_if_their_task_completes(self, stage: Stage) -> None:
        tasks = Registry()

        @tasks.task
        def parent(tx: Tx, task: Task) -> None:
            runner.enqueue(tx, "child")
            if task.params["fail"]:
                raise ValueError

        tasks.add(write, "child")
        runner.enqueue(stage.conn, "parent", {"fail": False})
        runner.enqueue(stage.conn, "parent", {"fail": True})
        assert counts(drain(stage.conn, tasks)) == {"ok": 2, "retried": 1}

    def test_priority_first(self, stage: Stage) -> None:
        order: list[Any] = []
        for n, priority in enumerate([9, 0, 5, 0]):
            runner.enqueue(stage.conn, "t", n, priority=priority)
        stage.drain(lambda tx, task: order.append(task.params))
        assert (set(order[:2]), order[2:]) == ({1, 3}, [2, 0])

    def test_random_among_equals(self, stage: Stage) -> None:
        order: list[int] = []
        ids = stage.add(count=50)
        stage.drain(lambda tx, task: order.append(task.id))
        assert sorted(order) == ids
        assert order != ids

    def test_a_receipt_for_a_key(self, stage: Stage) -> None:
        runner.enqueue(stage.conn, "t", key="k")
        assert counts(stage.drain(write)) == {"ok": 1}
        assert one(stage.conn, "select task_type from runner.receipt") == "t"
        assert runner.enqueue(stage.conn, "t", key="k") is None

    def test_a_key_done_before_has_no_second_effect(self, stage: Stage) -> None:
        stage.conn.execute(
            "insert into runner.receipt (idempotency_key, task_id, task_type) values ('k', 1, 't')"
        )
        stage.add(idempotency_key="k")
        assert counts(stage.drain(write)) == {"ok": 1}
        assert stage.effects() == 0

    def test_hooks(self, stage: Stage) -> None:
        tasks, told = Registry(), []
        tasks.on_worker_start(lambda: told.append("start"))
        tasks.on_worker_stop(lambda: told.append("stop"))

        @tasks.around
        def around(task: Task) -> Iterator[None]:
            told.append("in")
            yield
            told.append("out")

        @tasks.on_error
        def on_error(task: Task, error: BaseException) -> None:
            told.append(str(error))

        tasks.add(fail, "t")
        tasks.add(write, "u")
        runner.enqueue(stage.conn, "u", priority=0)
        runner.enqueue(stage.conn, "t")
        drain(stage.conn, tasks)
        assert told == ["start", "in", "out", "in", "no luck", "stop"]


class TestChoice:
    def test_unknown_types_are_left_and_counted(self, stage: Stage) -> None:
        ids = stage.add("nobody", 2)
        stage.add()
        assert counts(stage.drain(write)) == {"ok": 1, "unknown": 2}
        assert {(stage.row(n).state, stage.row(n).attempt) for n in ids} == {("ready", 0)}

    def test_queues(self, stage: Stage) -> None:
        stage.add(queue="mail")
        stage.add(count=2)
        assert counts(stage.drain(write, queues=["mail"])) == {"ok": 1}
        assert counts(stage.drain(write, queues=[])) == {}
        assert counts(stage.drain(write)) == {"ok": 2}

    def test_due_tasks_run_and_later_ones_wait(self, stage: Stage) -> None:
        runner.enqueue(stage.conn, "t", delay=3600)
        (due,) = stage.add(state="scheduled", run_at="2000-01-01")
        assert counts(stage.drain(write)) == {"ok": 1}
        assert one(stage.conn, "select n from effect") == due

    def test_paused_tasks_are_left(self, stage: Stage) -> None:
        stage.conn.execute("insert into runner.pause (queue) values ('default')")
        stage.add()
        assert counts(stage.drain(write)) == {"left": 1}

    def test_max_tasks_ends_what_has_no_end(self, stage: Stage) -> None:
        stage.add()
        drained = stage.drain(lambda tx, task: runner.enqueue(tx, "t"), max_tasks=5)
        assert counts(drained) == {"ok": 5, "left": 1}

    def test_a_snooze_without_delay_does_not_turn_round(self, stage: Stage) -> None:
        def snooze(tx: Tx, task: Task) -> NoReturn:
            raise runner.Snooze(0)

        stage.add()
        assert counts(stage.drain(snooze)) == {"snoozed": 1}


def test_what_others_hold_is_theirs(db: Connection, db_url: str) -> None:
    add(db, count=2)
    with psycopg.connect(db_url, autocommit=True) as other:
        theirs = Claimer(other, "t").take()
        ran: list[int] = []
        tasks = Registry()
        tasks.add(lambda tx, task: ran.append(task.id), "t")
        assert counts(drain(db, tasks)) == {"ok": 1, "left": 1}
        assert theirs is not None
        assert Counter(ran) == Counter(set(ran) - {theirs.task_id})


def test_what_it_cannot_work_on_is_told(db: Connection, db_url: str) -> None:
    with pytest.raises(TypeError, match=r"psycopg.Connection, not str"):
        drain(db_url, Registry())  # type: ignore[arg-type]
    with transaction(db_url) as conn:
        with pytest.raises(psycopg.Error):
            conn.execute("select 1/0")
        with pytest.raises(UsageError, match="roll it back"):
            drain(conn, Registry())
        conn.rollback()
        with conn.pipeline(), pytest.raises(UsageError, match="pipeline"):
            drain(conn, Registry())


def test_a_lost_connection_is_an_error_of_the_test(db: Connection, db_url: str) -> None:
    def cut(tx: Tx, task: Task) -> None:
        tx.execute("select 1")
        db.execute("select pg_terminate_backend(%s)", [tx.info.backend_pid])
        tx.execute("select 1")

    tasks = Registry()
    tasks.add(cut, "t")
    (task_id,) = add(db)
    conn = psycopg.connect(db_url, autocommit=True)
    with pytest.raises(psycopg.OperationalError):
        drain(conn, tasks)
    assert conn.closed
    assert row(db, task_id).state == "running"  # until its lease ends, as ever


def test_it_is_found_below_the_package() -> None:
    assert runner.testing.drain is drain
