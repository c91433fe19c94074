"""Odd strings and JSON texts in every field: stored and read back equal, or refused by name."""

import json
from typing import Any

import pytest

import runner
from runner.payload import loads_strict
from tests.data import ACCEPTED, NAUGHTY, REFUSED, label
from tests.servers import Connection
from tests.unit.test_payload import same

pytestmark = pytest.mark.db

PLACES: dict[str, Any] = {
    "value": lambda text: {"params": {"text": text}},
    "key of params": lambda text: {"params": {text: 1}},
    "type": lambda text: {"type": text},
    "queue": lambda text: {"queue": text},
    "key": lambda text: {"key": text},
}
READ = "select task_type, params, queue, idempotency_key from runner.task where task_id = %s"


@pytest.mark.parametrize("place", PLACES)
def test_naughty_strings(db: Connection, place: str) -> None:
    stored = unprintable = 0
    with db.transaction():
        for text in NAUGHTY:
            task = {"type": "hello", "params": {}, "queue": "default", "key": None}
            task |= PLACES[place](text)
            try:
                task_id = runner.enqueue(
                    db, task["type"], task["params"], queue=task["queue"], key=task["key"]
                )
            except runner.InvalidTask as error:
                unprintable += not str(error).isprintable()
                continue
            stored += 1
            assert task_id is not None
            row = db.execute(READ, [task_id]).fetchone()
            assert row == (task["type"], task["params"], task["queue"], task["key"])
    assert stored > len(NAUGHTY) // 3
    assert unprintable == 0


def test_naughty_strings_in_bulk(db: Connection) -> None:
    """The same are taken and refused as one by one, and what is taken arrives as it was."""
    good = []
    for text in NAUGHTY:
        for place in ("value", "type", "queue"):
            item = {"type": "hello", "params": {"n": len(good)}, **PLACES[place](text)}
            try:
                runner.enqueue_sql(item["type"], item["params"], queue=item.get("queue", "default"))
            except runner.InvalidTask:
                with pytest.raises(runner.InvalidTask, match="item 1: "):
                    runner.enqueue_many(db, [item])
                continue
            good.append(item)
    assert runner.enqueue_many(db, good) == len(good)
    again = [item | {"delay": 0} for item in good]  # not by COPY
    assert runner.enqueue_many(db, again) == len(good)
    query = "select task_type, queue, params from runner.task where task_id <= %s order by task_id"
    first = db.execute("select min(task_id) from runner.task").fetchone()
    assert first is not None
    rows = db.execute(query, [first[0] + len(good) - 1]).fetchall()
    assert rows == [(item["type"], item.get("queue", "default"), item["params"]) for item in good]
    doubled = "select count(*) from runner.task group by task_type, queue, params"
    assert {count % 2 for (count,) in db.execute(doubled).fetchall()} == {0}


@pytest.mark.parametrize("text", ACCEPTED, ids=label)
def test_json_that_is_taken(db: Connection, text: str) -> None:
    value = loads_strict(text)
    task_id = runner.enqueue(db, "hello", value)
    assert runner.enqueue_many(db, [value], type="hello") == 1
    assert runner.enqueue_many(db, [value], type="hello", delay=0) == 1
    assert task_id is not None
    rows = db.execute("select params::text from runner.task order by task_id").fetchall()
    one, *many = [json.loads(row[0]) for row in rows]
    assert all(same(stored, value) for stored in many)
    assert same(one, {} if value is None else value)  # None is the same as left out
    assert len(many) == 2


def test_json_that_is_refused() -> None:
    for text, message in REFUSED:
        with pytest.raises(runner.InvalidTask) as refusal:
            loads_strict(text)
        assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"params": {}}, "type: missing"),
        ({"type": None}, "type: missing"),
        ({"type": 7}, "type: int is neither text nor registered"),
        ({"type": "a", "kind": "b"}, "kind: no such field"),
        ({"type": "a", 7: "b"}, "int: no such field"),
        ({"type": "a", "priority": 10}, "priority: must be from 0"),
        ({"type": "a", "priority": True}, "priority: bool is no integer"),
        ({"type": "a", "unique": "yes"}, "unique: str is no bool"),
        ({"type": "a", "delay": -1}, "delay: must be from 0 seconds"),
        ({"type": "a", "delay": 1, "run_at": "2031-01-01T00:00:00Z"}, "run_at and delay: give one"),
        ({"type": "a", "run_at": "tomorrow"}, "run_at: no ISO 8601 time"),
        ({"type": "a", "max_attempts": 0}, "max_attempts: must be from 1"),
        (("a", {}, "q"), "a pair (type, params) is needed, not 3 values"),
        ("a", "str is no task; params alone need type="),
        (None, "NoneType is no task"),
        (object(), "type: object is neither text nor registered"),
    ],
)
def test_items_that_are_refused(db: Connection, item: Any, message: str) -> None:
    with pytest.raises(runner.InvalidTask) as refusal:
        runner.enqueue_many(db, [("fine", {}), item])
    assert str(refusal.value).startswith(f"item 2: {message}")
    assert db.execute("select count(*) from runner.task").fetchone() == (0,)


def test_bulk_of_nothing(db: Connection) -> None:
    assert runner.enqueue_many(db, []) == 0
    assert runner.enqueue_many(db, iter(()), type="hello", unique=True) == 0


def test_options_of_all_and_of_one(db: Connection) -> None:
    items = [{"type": "a"}, {"type": "b", "queue": "own", "priority": 1, "delay": 0}]
    assert runner.enqueue_many(db, items, queue="all", priority=7, delay=900) == 2
    rows = db.execute("select task_type, queue, priority, state from runner.task order by 1")
    assert rows.fetchall() == [("a", "all", 7, "scheduled"), ("b", "own", 1, "ready")]
