"""The transaction matrix: whatever the connection, a task lives and dies with the caller's own row."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

import runner
from tests.db.doors import DOORS, Door, django_connection, opened
from tests.servers import Connection

pytestmark = pytest.mark.db

ROW = "insert into own values ({})"


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest, db: Connection, db_url: str) -> Iterator[Door]:
    db.execute("create table own (n int)")
    with opened(request.param, db_url) as opened_door:
        yield opened_door


@pytest.fixture(params=DOORS)
def auto(request: pytest.FixtureRequest, db: Connection, db_url: str) -> Iterator[Door]:
    with opened(request.param, db_url, autocommit=True) as opened_door:
        yield opened_door


def counts(db: Connection) -> tuple[int, int]:
    """The caller's own rows and the tasks, as another session sees them."""
    row = db.execute("select (select count(*) from own), count(*) from runner.task").fetchone()
    assert row is not None
    return row[0], row[1]


def test_rollback_leaves_nothing(door: Door, db: Connection) -> None:
    door.execute(ROW.format(1))
    assert isinstance(door.enqueue("hello", {"a": 1}), int)
    assert counts(db) == (0, 0)
    door.rollback()
    assert counts(db) == (0, 0)


def test_commit_leaves_one(door: Door, db: Connection) -> None:
    door.execute(ROW.format(1))
    task_id = door.enqueue("hello", {"a": [1, "ä", None]}, queue="q", priority=3, max_attempts=7)
    door.commit()
    assert counts(db) == (1, 1)
    row = db.execute(
        "select task_id, task_type, params, queue, priority, max_attempts, state from runner.task"
    ).fetchone()
    assert row == (task_id, "hello", {"a": [1, "ä", None]}, "q", 3, 7, "ready")


def test_autocommit(auto: Door, db: Connection) -> None:
    assert isinstance(auto.enqueue("hello"), int)
    assert auto.enqueue_many([{"n": 1}, {"n": 2}], type="hello") == 2
    assert auto.enqueue_many([{"n": 1}, {"n": 2}], type="hello", unique=True) == 2
    assert db.execute("select count(*) from runner.task").fetchone() == (5,)


def test_savepoint(door: Door, db: Connection) -> None:
    door.execute(ROW.format(1))
    door.execute("savepoint before")
    assert door.enqueue("hello")
    door.execute("rollback to savepoint before")
    assert door.enqueue("kept")
    door.commit()
    assert db.execute("select task_type from runner.task").fetchall() == [("kept",)]


@pytest.mark.case("P-28")
def test_a_repeat_does_not_abort_the_transaction(door: Door, db: Connection) -> None:
    """P-28: order, task, the same key again, order line, commit."""
    door.execute(ROW.format(1))
    assert door.enqueue("hello", key="order 1") is not None
    assert door.enqueue("hello", key="order 1") is None
    assert door.enqueue("hello", {"n": 1}, unique=True) is not None
    assert door.enqueue("hello", {"n": 1}, unique=True) is None
    door.execute(ROW.format(2))
    door.commit()
    assert counts(db) == (2, 2)


@pytest.mark.case("P-57")
def test_a_refusal_does_not_abort_the_transaction(door: Door, db: Connection) -> None:
    """P-57: U+0000 in params is told before anything is sent; the caller's row commits."""
    with pytest.raises(runner.InvalidTask, match=r"params\.a\[0\]: holds U\+0000"):
        door.enqueue("hello", {"a": ["x\0"]})
    with pytest.raises(runner.InvalidTask, match=r"item 2: params\.n"):
        door.enqueue_many([{"n": 1}, {"n": float("nan")}], type="hello")
    door.execute(ROW.format(1))
    door.commit()
    assert counts(db) == (1, 0)


@pytest.mark.parametrize("kind", ["plain", "keyed"])
def test_bulk_is_rolled_back_and_committed(door: Door, db: Connection, kind: str) -> None:
    def items() -> Iterator[dict[str, Any]]:
        for n in range(50):
            yield {"type": "a\\b", "params": {"n": n, "text": 'tab \t, "\\N", ä'}} | (
                {"key": f"k{n}"} if kind == "keyed" else {"priority": n % 10}
            )

    assert door.enqueue_many(items()) == 50
    door.rollback()
    assert counts(db) == (0, 0)
    assert door.enqueue_many(items()) == 50
    door.commit()
    assert door.enqueue_many(items()) == (0 if kind == "keyed" else 50)
    door.rollback()
    rows = db.execute("select task_type, params from runner.task order by params->'n'").fetchall()
    assert rows == [("a\\b", {"n": n, "text": 'tab \t, "\\N", ä'}) for n in range(50)]


def test_bulk_of_all_kinds(door: Door, db: Connection) -> None:
    moment = datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)
    items: list[Any] = [
        ("plain", {"n": 1}),
        ("null", None),
        {"type": "bare"},
        {"type": "later", "run_at": moment},
        {"type": "soon", "delay": 600},
        {"type": "keyed", "key": "k"},
        {"type": "keyed", "key": "k"},
        {"type": "both", "key": "b", "unique": True},
        {"type": "both", "key": "c", "unique": True},
        {"type": "once", "params": {"b": 1, "a": 2}, "unique": True},
        {"type": "once", "params": {"a": 2, "b": 1}, "unique": True},
    ]
    assert door.enqueue_many(items) == 8
    door.commit()
    found = db.execute(
        "select task_type, params, state, run_at, idempotency_key, unique_key is not null"
        " from runner.task"
    ).fetchall()
    by_type = {row[0]: row[1:] for row in found}
    assert len(found) == len(by_type) == 8
    assert by_type["plain"][0] == {"n": 1}
    assert by_type["null"][0] == {}
    assert by_type["bare"][0] == {}
    assert by_type["later"][1:3] == ("scheduled", moment)
    assert timedelta(0) < by_type["soon"][2] - datetime.now(UTC) < timedelta(minutes=11)
    assert by_type["both"][3:] == ("b", True)
    assert by_type["once"][4] is True


def test_times_as_they_are_meant(door: Door, db: Connection) -> None:
    moment = datetime(2030, 1, 1, 12, tzinfo=UTC)
    at = door.enqueue("hello", run_at=moment)
    soon = door.enqueue("hello", delay=timedelta(minutes=5))
    door.commit()
    rows = db.execute(
        "select task_id, state, run_at, run_at - created_at from runner.task"
    ).fetchall()
    by_id = {row[0]: row[1:] for row in rows}
    assert by_id[at][:2] == ("scheduled", moment)
    assert by_id[soon][0] == "scheduled"
    assert abs(by_id[soon][2] - timedelta(minutes=5)) < timedelta(seconds=5)


def test_in_a_pipeline(db_url: str, db: Connection) -> None:
    with psycopg.connect(db_url) as conn, conn.pipeline():
        assert runner.enqueue(conn, "hello") is not None
        assert runner.enqueue_many(conn, [{}, {}], type="hello") == 2
    assert db.execute("select count(*) from runner.task").fetchone() == (3,)


def test_in_djangos_atomic(db_url: str, db: Connection) -> None:
    from django.db import connections, transaction

    with ExitStack() as stack:
        conn = django_connection(db_url, stack)
        conn.alias = "enqueue"
        connections["enqueue"] = conn
        stack.callback(lambda: connections.__delitem__("enqueue"))
        with transaction.atomic(using="enqueue"):
            assert runner.enqueue(conn, "outer")
            try:
                with transaction.atomic(using="enqueue"):
                    assert runner.enqueue(connections["enqueue"], "inner")
                    raise RuntimeError
            except RuntimeError:
                pass
            with conn.cursor() as cursor:
                assert runner.enqueue(cursor, "cursor")
    kinds = db.execute("select task_type from runner.task order by 1").fetchall()
    assert kinds == [("cursor",), ("outer",)]


def test_asyncpg_with_a_json_codec_of_its_own(db_url: str, db: Connection) -> None:
    import json

    with opened("asyncpg", db_url) as door:
        assert door.run is not None
        door.run(
            door.conn.set_type_codec(
                "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
            )
        )
        door.enqueue("hello", {"a": 1})
        door.enqueue_many([{"a": 1}], type="hello")
        door.commit()
    assert db.execute("select distinct params from runner.task").fetchall() == [({"a": 1},)]


def test_what_is_no_connection_is_told(db_url: str) -> None:
    import sqlalchemy

    engine = sqlalchemy.create_engine("postgresql+psycopg://")
    pool: Any = ConnectionPool(db_url, open=False)
    for thing in (engine, pool, None, "dsn", object()):
        with pytest.raises(TypeError, match="no connection that runner knows"):
            runner.enqueue(thing, "hello")
    for kind in ("psycopg async", "SQLAlchemy AsyncSession", "asyncpg"):
        with (
            opened(kind, db_url) as door,
            pytest.raises(TypeError, match=r"await runner\.aenqueue"),
        ):
            runner.enqueue(door.conn, "hello")
    with opened("psycopg async", db_url) as door, psycopg.connect(db_url) as conn:
        assert door.run is not None
        with pytest.raises(TypeError, match=r"use runner\.enqueue"):
            door.run(runner.aenqueue(conn, "hello"))
