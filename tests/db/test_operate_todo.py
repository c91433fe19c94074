"""The board of what people must fix, as it is in the database."""

from typing import Any

import pytest

from runner.operating.scaffold import Field
from runner.store import todo
from runner.supervisor.child import Why
from tests.db.stage import add, announce, one
from tests.servers import Connection

pytestmark = pytest.mark.db
OLD = "2020-01-31 12:00:00+00"


def board(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_living_types_are_those_whose_lease_holds(db: Connection) -> None:
    announce(db, "gone")
    db.execute("update runner.worker set lease_until = clock_timestamp() - interval '1 s'")
    announce(db, "a", "b")
    announce(db, "b", "c")
    announce(db)
    assert todo.living_types(db) == {"a", "b", "c"}


def test_unknown_counts_what_waits(db: Connection) -> None:
    first, *_ = add(db, "later", 3, created_at=OLD, params='{"n": 1}')
    add(db, "later", 2, run_at="infinity")
    add(db, "later", state="dead")
    add(db, "known", 7)
    rows = todo.unknown(db, {"known"})
    names = ("type", "count", "first_seen", "sample", "task")
    assert board(rows, *names) == [("later", 5, "2020-01-31T12:00:00+00:00", '{"n": 1}', first)]


def test_failing_groups_by_the_first_line(db: Connection) -> None:
    failed = {"attempt": 2, "max_attempts": 5, "last_failed_at": OLD, "cause": "ValueError"}
    add(db, "a", 3, last_error="ValueError: x\nline two", run_at="2030-01-31 12:00:00+00", **failed)
    add(db, "a", 1, last_error="ValueError: x\nanother", run_at="infinity", **failed)
    add(db, "a", 1, last_error="ValueError: y", **failed)
    add(db, "a", 1, last_error="ValueError: y", last_failed_at=OLD)  # requeued: no longer failing
    add(db, "a", 1, state="dead", last_error="ValueError: y")
    rows = todo.failing(db, None)
    assert board(rows, "type", "count", "error", "cause") == [
        ("a", 4, "ValueError: x", "ValueError"),
        ("a", 1, "ValueError: y", "ValueError"),
    ]
    assert rows[0]["next_try"] == "2030-01-31T12:00:00+00:00"
    assert len(todo.failing(db, 1)) == 1


def test_what_is_interrupted_again_and_again_is_among_what_fails(db: Connection) -> None:
    worker = announce(db, "a")
    held = {"state": "running", "lease_owner": worker, "fence": 1, "claimed_at": OLD, "attempt": 1}
    cut_off = {"released": 3, "max_attempts": 3, "cause": Why.DEAF.value}
    add(db, "a", 2, **cut_off, run_at="2030-01-31 12:00:00+00", state="scheduled")
    add(db, "a", 1, **held, **cut_off | {"released": 4})
    add(db, "b", 1, **held, **cut_off | {"cause": "lease lost"})
    add(db, "a", 1, released=2, cause="stopped")  # gracefully
    add(db, "a", 1, cause=Why.DEAF.value)  # requeued
    rows = todo.failing(db, None)
    assert board(rows, "type", "count", "cause", "interrupted", "next_try") == [
        ("a", 3, Why.DEAF.value, 4, "2030-01-31T12:00:00+00:00"),
        ("b", 1, "lease lost", 3, None),
    ]


def test_dead_groups_by_cause_and_first_line(db: Connection) -> None:
    add(db, "a", 2, state="dead", cause="SIGSEGV", last_failed_at=OLD)
    add(
        db,
        "a",
        1,
        state="dead",
        cause="ValueError",
        last_error="ValueError: x",
        created_at="infinity",
    )
    rows = todo.dead(db, None)
    assert board(rows, "type", "count", "cause", "error", "last_failed_at") == [
        ("a", 2, "SIGSEGV", "", "2020-01-31T12:00:00+00:00"),
        ("a", 1, "ValueError", "ValueError: x", None),
    ]
    assert rows[1]["first_seen"] == "infinity"


def test_fields_of_the_params(db: Connection) -> None:
    add(db, "a", params='{"path": "x", "size": 1, "tags": []}')
    add(db, "a", params='{"path": "y", "size": null}')
    assert todo.fields(db, "a") == [
        Field("path", ["string"], True),
        Field("size", ["null", "number"], True),
        Field("tags", ["array"], False),
    ]


@pytest.mark.parametrize("params", ["[]", "1", "null", '"text"'])
def test_no_fields_where_params_are_no_objects(db: Connection, params: str) -> None:
    add(db, "a", params='{"path": "x"}')
    add(db, "a", params=params)
    assert todo.fields(db, "a") == []
    assert one(db, "select count(*) from runner.task") == 2
