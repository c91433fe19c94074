"""Enqueueing while real workers run: from within handlers, beside them, and after them."""

import os
from pathlib import Path
from typing import Any

import psycopg
import pytest

import runner
from tests import commands

pytestmark = [pytest.mark.process, pytest.mark.db]

APP = """
from dataclasses import dataclass
import runner

tasks = runner.Registry()
EFFECT = "insert into effect (type, n) values (%s, %s)"

@tasks.task
def chain(tx, task):
    tx.execute(EFFECT, ["chain", task.params["n"]])
    if task.params["left"]:
        runner.enqueue(tx, "chain", {**task.params, "left": task.params["left"] - 1}, unique=True)

@tasks.task
def again(tx, task):
    # The same type and params as its own row, which is still there.
    n = tx.execute("select count(*) from effect").fetchone()[0]
    if n < 100:
        tx.execute(EFFECT, ["again", n])
        assert runner.enqueue(tx, "again", unique=True) is not None
        assert runner.enqueue(tx, "again", unique=True) is None

@tasks.task(max_attempts=1)
def follow_and_fail(tx, task):
    runner.enqueue(tx, "follow", {"n": 1})
    runner.enqueue_many(tx, [{"n": 2}, {"n": 3}], type="follow")
    raise ValueError("after all")

@tasks.task
@dataclass
class Follow:
    name = "follow"
    n: int

    def process(self, tx, task):
        tx.execute(EFFECT, ["follow", self.n])
        if self.n > 10:
            runner.enqueue(tx, Follow(self.n - 10))
            runner.enqueue_many(tx, [Follow(self.n - 9), ("follow", {"n": self.n - 8})])

@tasks.task
def keyed(tx, task):
    tx.execute(EFFECT, ["keyed", 0])
"""


@pytest.fixture
def conn(fresh: str, tmp_path: Path) -> Any:
    (tmp_path / "tasks.py").write_text(APP)
    with psycopg.connect(fresh, autocommit=True) as connection:
        connection.execute("create table effect (type text, n int)")
        yield connection


def drain(url: str, directory: Path, *options: str) -> None:
    root = os.fspath(Path(runner.__file__).parent.parent)
    result = commands.run(
        "drain", "--procs", "2", *options, url=url, cwd=directory, PYTHONPATH=root
    )
    assert result.returncode == 0, result.stderr


def effects(conn: Any, name: str) -> list[int]:
    query = "select n from effect where type = %s order by 1"
    return [row[0] for row in conn.execute(query, [name]).fetchall()]


def left(conn: Any) -> list[tuple[str, str, str]]:
    return conn.execute("select task_type, state, cause from runner.task").fetchall()  # type: ignore[no-any-return]


@pytest.mark.case("P-13")
def test_a_task_enqueues_itself_a_hundred_times(conn: Any, fresh: str, tmp_path: Path) -> None:
    """P-13: a chain of 100, its own params and others: every link has its effect, nothing is left."""
    runner.enqueue(conn, "again", unique=True)
    drain(fresh, tmp_path)
    assert effects(conn, "again") == list(range(100))
    conn.execute("delete from effect")
    runner.enqueue(conn, "chain", {"n": 7, "left": 99}, unique=True)
    drain(fresh, tmp_path)
    assert effects(conn, "chain") == [7] * 100
    assert left(conn) == []


def test_follow_ups_exist_only_if_the_task_completes(conn: Any, fresh: str, tmp_path: Path) -> None:
    runner.enqueue(conn, "follow_and_fail")
    drain(fresh, tmp_path, "--fail-on", "never")
    assert left(conn) == [("follow_and_fail", "dead", "ValueError")]
    assert effects(conn, "follow") == []
    runner.enqueue(conn, "follow", {"n": 11})
    drain(fresh, tmp_path, "--fail-on", "never")
    assert effects(conn, "follow") == [1, 2, 3, 11]


def test_params_that_do_not_fit_are_told(conn: Any, fresh: str, tmp_path: Path) -> None:
    runner.enqueue(conn, "follow", {"m": 1}, max_attempts=1)
    drain(fresh, tmp_path, "--fail-on", "never")
    row = conn.execute("select state, last_error from runner.task").fetchone()
    text = "InvalidParams: Follow: missing field n; unknown field m"
    assert row == ("dead", text)


def test_a_keyed_task_once_done_is_not_done_again(conn: Any, fresh: str, tmp_path: Path) -> None:
    runner.enqueue(conn, "keyed", key="k")
    drain(fresh, tmp_path)
    assert runner.enqueue(conn, "keyed", key="k") is None
    # Put back by hand: the receipt decides, in the completing transaction.
    conn.execute("insert into runner.task (task_type, idempotency_key) values ('keyed', 'k')")
    drain(fresh, tmp_path)
    assert effects(conn, "keyed") == [0]
    assert left(conn) == []
