"""Keys and uniqueness: one row however many enqueue at once, and nobody waits for a handler."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest

import runner
from tests.servers import Connection, wait_until

pytestmark = pytest.mark.db

CALLERS = 20
ONCE: dict[str, dict[str, Any]] = {
    "key": {"key": "order 1"},
    "unique": {"unique": True},
    "both": {"key": "order 1", "unique": True},
}
once = pytest.mark.parametrize("options", ONCE.values(), ids=ONCE)

CLAIM = """
    update runner.task set state = 'running', attempt = attempt + 1, fence = fence + 1,
        lease_owner = %s, max_attempts = 5
    where task_id = %s"""
RETRY = "update runner.task set state = 'scheduled', lease_owner = null where task_id = %s"
COMPLETE = "delete from runner.task where task_id = %s"
RECEIPT = (
    "insert into runner.receipt (idempotency_key, task_id, task_type) values (%s, %s, 'hello')"
)


def at_once(
    url: str, act: Callable[[Connection], Any], callers: int = CALLERS
) -> tuple[list[Any], float]:
    """What as many sessions answer that act at the same moment, and the longest time that one took."""
    barrier = threading.Barrier(callers)

    def call(_: int) -> tuple[Any, float]:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("select 1")
            barrier.wait(30)
            begin = time.monotonic()
            answer = act(conn)
            return answer, time.monotonic() - begin

    with ThreadPoolExecutor(callers) as pool:
        answers = list(pool.map(call, range(callers)))
    return [answer for answer, _ in answers], max(seconds for _, seconds in answers)


def tasks(db: Connection) -> list[int]:
    return [row[0] for row in db.execute("select task_id from runner.task order by 1").fetchall()]


def running(db: Connection, **options: Any) -> int:
    """A task that somebody has claimed."""
    task_id = runner.enqueue(db, "hello", {"n": 1}, **options)
    assert task_id is not None
    db.execute(CLAIM, [uuid4(), task_id])
    return task_id


@once
def test_twenty_first_enqueues_at_once(
    db: Connection, db_url: str, options: dict[str, Any]
) -> None:
    answers, seconds = at_once(db_url, lambda conn: runner.enqueue(conn, "hello", **options))
    added = [answer for answer in answers if answer is not None]
    assert tasks(db) == added
    assert len(added) == 1
    assert seconds < 10


@once
@pytest.mark.case("P-27")
def test_no_waiting_for_a_handler(db: Connection, db_url: str, options: dict[str, Any]) -> None:
    """P-27: while the handler of that very task has a transaction open, all answers come at once."""
    task_id = running(db, **options)
    with psycopg.connect(db_url) as handler:
        handler.execute("select * from runner.task where task_id = %s for key share", [task_id])
        answers, seconds = at_once(
            db_url, lambda conn: runner.enqueue(conn, "hello", {"n": 1}, **options)
        )
    assert seconds < 10
    added = [answer for answer in answers if answer is not None]
    # A key has its task until that is done; a unique task that runs no longer counts as waiting.
    assert len(added) == (0 if "key" in options else 1)
    assert tasks(db) == [task_id, *added]


@pytest.mark.case("P-27")
def test_bulk_does_not_wait_for_a_handler(db: Connection, db_url: str) -> None:
    task_id = running(db, key="k1", unique=True)
    items = [{"type": "hello", "params": {"n": 1}, "key": f"k{n}"} for n in (2, 1, 3)]
    with psycopg.connect(db_url) as handler:
        handler.execute("select * from runner.task where task_id = %s for key share", [task_id])
        # Whoever waited for the handler would wait for ever.
        assert runner.enqueue_many(db, items) == 2
        assert runner.enqueue_many(db, [{"n": 1}], type="hello", unique=True) == 1


@once
@pytest.mark.parametrize("commit", [False, True])
def test_it_waits_for_another_enqueuer_and_takes_over(
    db: Connection, db_url: str, options: dict[str, Any], commit: bool
) -> None:
    with psycopg.connect(db_url) as first, psycopg.connect(db_url) as second:
        assert runner.enqueue(first, "hello", **options) is not None
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(runner.enqueue, second, "hello", **options)
            wait_until(lambda: is_blocked(db, second.info.backend_pid), why="it waits")
            first.commit() if commit else first.rollback()
            assert (answer.result(10) is None) == commit
        second.commit()
    assert len(tasks(db)) == 1


def is_blocked(db: Connection, pid: int) -> bool:
    row = db.execute("select cardinality(pg_blocking_pids(%s))", [pid]).fetchone()
    return row is not None and row[0] > 0


@once
@pytest.mark.parametrize("bulk", [False, True])
def test_above_read_committed_a_repeat_is_no_error(
    db: Connection, db_url: str, options: dict[str, Any], bulk: bool
) -> None:
    """A twin that was committed after the caller's snapshot answers None, and the transaction lives."""
    with psycopg.connect(db_url) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("select count(*) from runner.task")
        assert runner.enqueue(db, "hello", {"n": 1}, **options) is not None
        if bulk:
            item = {"type": "hello", "params": {"n": 1}, **options}
            assert runner.enqueue_many(conn, [item]) == 0
        else:
            assert runner.enqueue(conn, "hello", {"n": 1}, **options) is None
        assert conn.execute("select 1").fetchone() == (1,)
        conn.commit()
    assert len(tasks(db)) == 1


def test_a_completed_key_adds_nothing(db: Connection) -> None:
    task_id = running(db, key="k")
    with db.transaction():
        db.execute(RECEIPT, ["k", task_id])
        db.execute(COMPLETE, [task_id])
    assert runner.enqueue(db, "hello", key="k") is None
    assert runner.enqueue_many(db, [{"type": "hello", "key": "k"}]) == 0
    assert tasks(db) == []


@pytest.mark.parametrize("bulk", [False, True])
def test_a_key_that_is_completed_meanwhile(db: Connection, db_url: str, bulk: bool) -> None:
    """Between the caller's looks for row and receipt, which find nothing, and its insert, the key's task
    comes and is done: the insert goes through, and must be taken back."""
    with psycopg.connect(db_url) as other, psycopg.connect(db_url) as caller:
        task_id = runner.enqueue(other, "hello", key="k")

        def call() -> int | None:
            if bulk:
                return runner.enqueue_many(caller, [{"type": "hello", "key": "k"}]) or None
            return runner.enqueue(caller, "hello", key="k")

        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(call)
            wait_until(lambda: is_blocked(db, caller.info.backend_pid), why="it waits")
            other.execute(COMPLETE, [task_id])
            other.execute(RECEIPT, ["k", task_id])
            other.commit()
            assert answer.result(10) is None
        caller.commit()
    assert tasks(db) == []


@pytest.mark.parametrize("bulk", [False, True])
def test_a_waiting_retry_takes_the_place_of_a_twin(db: Connection, bulk: bool) -> None:
    def add(n: int) -> bool:
        if bulk:
            return bool(runner.enqueue_many(db, [{"n": n}], type="hello", unique=True))
        return runner.enqueue(db, "hello", {"n": n}, unique=True) is not None

    task_id = running(db, unique=True)
    db.execute(RETRY, [task_id])
    assert not add(1)
    assert add(2)
    assert not add(2)


@pytest.mark.case("P-13")
@pytest.mark.parametrize("succeeds", [True, False])
def test_a_task_enqueues_itself_again(db: Connection, succeeds: bool) -> None:
    """P-13: within its own transaction; on success one new row, on failure the old one alone."""
    task_id = running(db, unique=True)
    with db.transaction(force_rollback=not succeeds):
        again = runner.enqueue(db, "hello", {"n": 1}, unique=True, delay=1)
        assert again is not None
        db.execute(COMPLETE, [task_id])
    if not succeeds:
        db.execute(RETRY, [task_id])
    found = db.execute("select task_id, attempt from runner.task").fetchall()
    assert found == [(again, 0) if succeeds else (task_id, 1)]


def test_unique_is_of_queue_type_and_params(db: Connection) -> None:
    for options in ({}, {"queue": "other"}):
        for name in ("hello", "other"):
            for params in ({"n": 1}, {"n": 2}):
                add = dict(unique=True, **options)
                assert runner.enqueue(db, name, params, **add) is not None
                assert runner.enqueue(db, name, params, **add) is None
    assert len(tasks(db)) == 8
    assert runner.enqueue(db, "hello", {"n": 1}) is not None  # not unique: none of its business


def test_an_id_given_out_twice_is_told(db: Connection) -> None:
    """A table restored without its sequence: ON CONFLICT must not swallow the task."""
    row = db.execute("select max(task_id) from (select nextval(%s) as task_id) t", [SEQUENCE])
    last = row.fetchone()
    assert last is not None
    db.execute("insert into runner.task (task_id, task_type) values (%s, 'x')", [last[0] + 1])
    with pytest.raises(psycopg.errors.UniqueViolation):
        runner.enqueue(db, "hello")
    for item in ({"key": "k"}, {"unique": True}):
        db.execute("select setval(%s, %s)", [SEQUENCE, last[0]])
        with pytest.raises(psycopg.errors.UniqueViolation):
            runner.enqueue_many(db, [{"type": "hello", **item}])
    assert len(tasks(db)) == 1


SEQUENCE = "runner.task_task_id_seq"


def test_bulk_loads_in_opposite_orders_do_not_deadlock(db: Connection, db_url: str) -> None:
    numbers = iter(range(8))

    def load(conn: Connection) -> int:
        keys = [{"type": "hello", "key": f"k{n}"} for n in range(2000)]
        return runner.enqueue_many(conn, keys[:: (-1) ** next(numbers)])

    answers, _ = at_once(db_url, load, 8)
    assert sum(answers) == len(tasks(db)) == 2000


@once
def test_a_serialization_failure_is_no_twin(fresh: str, options: dict[str, Any]) -> None:
    """The caller must hear of it: told None, it would commit, and nobody would ever do the task."""
    with psycopg.connect(fresh) as first, psycopg.connect(fresh) as second:
        first.isolation_level = second.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        runner.enqueue(second, "hello", {"n": 3}, **(options | {"key": "third"}))
        runner.enqueue(first, "hello", {"n": 1}, **(options | {"key": "first"}))
        first.commit()
        with pytest.raises(psycopg.errors.SerializationFailure):
            runner.enqueue(second, "hello", {"n": 2}, **(options | {"key": "second"}))
        second.rollback()
        assert runner.enqueue(second, "hello", {"n": 2}, **(options | {"key": "second"}))
        second.commit()
