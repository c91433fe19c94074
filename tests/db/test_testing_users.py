"""A small suite of a user, with the fixture that pytest finds by itself."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import environment
from tests.db.stage import one
from tests.servers import Connection

pytestmark = pytest.mark.db


USERS_TASKS = """
import runner

tasks = runner.Registry()

@tasks.task("resize_photo")
def resize_photo(tx, task):
    tx.execute("insert into thumbnail (path) values (%s)", [task.params["path"]])

@tasks.task(max_attempts=2)
def always_fails(tx, task):
    raise ValueError("no luck")
"""
USERS_TESTS = """
import os
import psycopg
import pytest
import runner
from tasks import tasks

@pytest.fixture
def conn():
    with psycopg.connect(os.environ["DATABASE_URL"]) as conn:
        conn.execute("create table thumbnail (path text)")
        yield conn
        conn.rollback()

def test_a_thumbnail_is_made(conn, runner_drain):
    runner.enqueue(conn, "resize_photo", {"path": "a.jpg"})
    assert runner_drain(conn, tasks).ok == 1
    assert conn.execute("select path from thumbnail").fetchall() == [("a.jpg",)]

def test_nobody_handles_it(conn, runner_drain):
    runner.enqueue(conn, "not_there")
    assert runner_drain(conn, tasks).unknown == 1

def test_death_is_expected(conn, runner_drain):
    runner.enqueue(conn, "always_fails")
    drained = runner_drain(conn, tasks, allow_dead=True)
    assert (drained.retried, drained.dead) == (1, 1)

def test_death_is_not_expected(conn, runner_drain):
    runner.enqueue(conn, "always_fails")
    runner_drain(conn, tasks)

def test_something_is_left(conn, runner_drain):
    conn.execute("insert into runner.pause (queue) values ('default')")
    runner.enqueue(conn, "resize_photo", {"path": "a.jpg"})
    runner_drain(conn, tasks)
"""


def test_a_suite_of_a_user(db: Connection, db_url: str, tmp_path: Path) -> None:
    """pytest finds the fixture by itself, and every failure tells why."""
    (tmp_path / "tasks.py").write_text(USERS_TASKS)
    (tmp_path / "test_tasks.py").write_text(USERS_TESTS)
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(DATABASE_URL=db_url, PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 failed, 3 passed" in done.stdout, done.stdout
    assert "AssertionError: 1 tasks died; what failed:" in done.stdout
    assert 'raise ValueError("no luck")' in done.stdout  # the handler's own traceback
    assert "1 tasks are still ready: paused" in done.stdout
    assert one(db, "select count(*) from runner.task") == 0


def test_pytest_is_no_dependency() -> None:
    code = "import sys, runner.testing; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
    code = "import sys, runner.testing_plugin; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
