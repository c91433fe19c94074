"""`runner drain` as cron and people see it: silence, numbers, exit codes."""

import json
import re
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from runner.store.sql import query
from tests import fleets
from tests.commands import APP, error_of, run, run_on_terminal
from tests.servers import Connection, wait_until

pytestmark = pytest.mark.process
KEYS = ["ok", "retried", "dead", "unknown", "released", "left", "scheduled", "seconds", "reason"]
SUMMARY = re.compile(r"drained ok=\d+ retried=\d+ dead=\d+ unknown=\d+ left=\d+ in \d+\.\ds")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(APP)
    return tmp_path


def add(db: Connection, *types: str, **columns: Any) -> None:
    for task_type in types:
        db.execute("insert into runner.task (task_type) values (%s)", [task_type])


def test_nothing_to_do_is_silent_quick_and_forks_nobody(
    project: Path, db: Connection, db_url: str
) -> None:
    """Quick: what it takes is mostly the import of its libraries, on a slow machine as on a fast one."""
    ours: list[float] = []
    imports: list[float] = []
    while len(ours) < 5 and min(ours, default=1) >= 2.5 * min(imports, default=0):
        before = _seconds_of_children()
        subprocess.run([sys.executable, "-c", "import psycopg, click"], check=True)
        between = _seconds_of_children()
        result = run("drain", "--procs", "4", url=db_url, cwd=project)
        ours.append(_seconds_of_children() - between)
        imports.append(between - before)
        assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)
    assert min(ours) < 2.5 * min(imports)
    assert db.execute("select count(*) from runner.runner").fetchone() == (0,)
    told = json.loads(run("drain", "--json", url=db_url, cwd=project).stdout)
    assert told["reason"] == "empty"
    assert list(told) == KEYS


def _seconds_of_children() -> float:
    """Time on a CPU: unlike that on the wall, it does not count what others do meanwhile."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_success_is_silent(project: Path, db: Connection, db_url: str) -> None:
    add(db, "hello", "hello", "hello")
    result = run("drain", "--procs", "2", url=db_url, cwd=project)
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)
    assert db.execute("select count(*) from runner.task").fetchone() == (0,)


def test_the_dead_are_told_once_and_the_unknown_by_name(
    project: Path, db: Connection, db_url: str
) -> None:
    add(db, "hello", "boom", "again", "нет", "nope")
    result = run("drain", "--procs", "2", "--json", url=db_url, cwd=project)
    told = json.loads(result.stdout)
    assert list(told) == KEYS
    assert {key: told[key] for key in KEYS[:7]} == {
        "ok": 1,
        "retried": 1,
        "dead": 1,
        "unknown": 2,
        "released": 0,
        "left": 0,
        "scheduled": 1,
    }
    assert told["reason"] == "drained"
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert len(lines) == 2, result.stderr
    assert "boom" in lines[0]
    assert "no luck" in lines[0]
    assert lines[1] == "runner: not implemented: nope, нет (2 waiting)"


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_the_environment_has_no_say_in_the_encoding(
    encoding: str, project: Path, db: Connection, db_url: str
) -> None:
    add(db, "hello", "€")
    more = {"PGCLIENTENCODING": encoding}
    result = run("drain", "--procs", "1", "--json", url=db_url, cwd=project, **more)
    assert (result.returncode, result.stderr) == (0, "runner: not implemented: € (1 waiting)\n")
    assert json.loads(result.stdout)["ok"] == 1
    shown = run("list", "--json", url=db_url, cwd=project, **more)
    assert json.loads(shown.stdout)["type"] == "€"


def test_what_is_due_is_made_ready_after_the_pass_of_somebody_else(
    project: Path, db: Connection, db_url: str
) -> None:
    """As when cron starts two drains in one minute: none may pass over it and say that it was empty."""
    db.execute(
        "insert into runner.task (task_type, run_at) values ('hello', now() - interval '1 s')"
    )
    assert db.execute("update runner.task set state = 'scheduled' returning 1").fetchone()
    with psycopg.connect(db_url) as other:
        other.execute(query("try_pass_lock"))
        with ThreadPoolExecutor() as pool:
            drain = pool.submit(run, "drain", "--procs", "1", "--json", url=db_url, cwd=project)
            waits = "select from pg_locks where locktype = 'advisory' and not granted"
            wait_until(
                lambda: drain.done() or db.execute(waits).fetchone() is not None, 30, "waits"
            )
            other.commit()
            told = json.loads(drain.result().stdout)
    assert (told["ok"], told["scheduled"], told["reason"]) == (1, 0, "drained")


@pytest.mark.parametrize(
    ("tasks", "fail_on", "code"),
    [
        ("boom", "dead", 1),
        ("boom", "failure", 1),
        ("boom", "left", 1),
        ("boom", "never", 0),
        ("again", "dead", 0),
        ("again", "failure", 1),
        ("nope", "left", 0),
        ("hello", "left", 0),
    ],
)
def test_what_makes_it_fail(
    tasks: str, fail_on: str, code: int, project: Path, db: Connection, db_url: str
) -> None:
    add(db, tasks)
    result = run("drain", "--procs", "1", "--fail-on", fail_on, url=db_url, cwd=project)
    assert result.returncode == code


def test_left_counts_what_max_tasks_leaves(project: Path, db: Connection, db_url: str) -> None:
    add(db, *["hello"] * 5)
    arguments = ("drain", "--procs", "2", "--max-tasks", "3", "--fail-on", "left", "--json")
    result = run(*arguments, url=db_url, cwd=project)
    told = json.loads(result.stdout)
    assert (told["ok"], told["left"], told["reason"]) == (3, 2, "max-tasks")
    assert result.returncode == 1


def test_a_second_drain_steps_back(project: Path, db: Connection, db_url: str) -> None:
    add(db, "hello")
    db.execute(
        "insert into runner.worker (worker_id, runner_id, role, host, pid, lease, lease_until)"
        " values (gen_random_uuid(), gen_random_uuid(), 'drain', 'elsewhere', 1, '1m',"
        " now() + interval '1m')"
    )
    result = run("drain", url=db_url, cwd=project)
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)
    assert json.loads(run("drain", "--json", url=db_url, cwd=project).stdout)["reason"] == "overlap"
    result = run("drain", "--fail-if-busy", url=db_url, cwd=project)
    assert error_of(result) == "another drain of these queues runs"
    assert result.returncode == 75
    result = run("drain", "--overlap", "allow", "--json", url=db_url, cwd=project)
    assert json.loads(result.stdout)["ok"] == 1


def test_a_drain_at_its_last_task_is_not_overlooked(
    project: Path, db: Connection, db_url: str
) -> None:
    """Nothing is runnable then, and yet the queues are not empty: busy."""
    db.execute(
        "insert into runner.worker (worker_id, runner_id, role, host, pid, lease, lease_until)"
        " values (gen_random_uuid(), gen_random_uuid(), 'drain', 'elsewhere', 1, '1m',"
        " now() + interval '1m')"
    )
    told = json.loads(run("drain", "--json", url=db_url, cwd=project).stdout)
    assert (told["reason"], told["seconds"]) == ("overlap", round(told["seconds"], 3))
    assert run("drain", "--fail-if-busy", url=db_url, cwd=project).returncode == 75
    for others in (("--queue", "mail"), ("--overlap", "allow")):
        result = run("drain", *others, "--fail-if-busy", "--json", url=db_url, cwd=project)
        assert (json.loads(result.stdout)["reason"], result.returncode) == ("empty", 0)
    assert db.execute("select count(*) from runner.worker").fetchone() == (1,)


def test_the_summary_has_one_form(project: Path, db: Connection, db_url: str) -> None:
    add(db, "hello")
    loud = run("drain", "--procs", "1", "-v", url=db_url, cwd=project)
    assert loud.stdout == ""
    assert SUMMARY.fullmatch(loud.stderr.splitlines()[-1]), loud.stderr
    add(db, "hello")
    shown, code = run_on_terminal("drain", "--procs", "1", url=db_url, cwd=project)
    assert code == 0
    assert SUMMARY.fullmatch(shown.strip()), shown
    assert run_on_terminal("drain", "-q", url=db_url, cwd=project) == ("", 0)


@pytest.mark.parametrize("alias", ["--drain", "--burst", "--once"])
def test_aliases(alias: str, project: Path, db: Connection, db_url: str) -> None:
    add(db, "hello")
    arguments = ("start", alias, "--procs", "1", "--max-time", "20s", "--json")
    result = run(*arguments, url=db_url, cwd=project)
    assert json.loads(result.stdout)["ok"] == 1


def test_a_dry_run_changes_nothing(project: Path, db: Connection, db_url: str) -> None:
    add(db, "hello", "hello", "boom")
    db.execute("insert into runner.task (task_type, run_at) values ('boom', now() + '1 hour')")
    before = db.execute("select * from runner.task order by task_id").fetchall()
    result = run("drain", "--dry-run", url=db_url, cwd=project)
    assert result.stdout == "queue\ttype\ttasks\ndefault\tboom\t1\ndefault\thello\t2\n"
    assert (result.stderr, result.returncode) == ("", 0)
    lines = run("drain", "--dry-run", "--json", url=db_url, cwd=project).stdout.splitlines()
    assert json.loads(lines[1]) == {"queue": "default", "type": "hello", "tasks": 2}
    assert db.execute("select * from runner.task order by task_id").fetchall() == before


def test_logs_as_json(project: Path, db: Connection, db_url: str) -> None:
    add(db, "boom")
    arguments = ("drain", "--procs", "1", "--log-format", "json", "--fail-on", "never")
    (line,) = run(*arguments, url=db_url, cwd=project).stderr.splitlines()
    record = json.loads(line)
    assert (record["level"], record["event"], record["type"]) == ("error", "dead", "boom")


def test_queues_and_options_by_variables(project: Path, db: Connection, db_url: str) -> None:
    for queue in ("a", "b"):
        db.execute("insert into runner.task (queue, task_type) values (%s, 'hello')", [queue])
    variables = {"RUNNER_DRAIN_QUEUE": "a", "RUNNER_DRAIN_PROCS": "1", "RUNNER_DRAIN_JSON": "1"}
    told = json.loads(run("drain", url=db_url, cwd=project, **variables).stdout)
    assert (told["ok"], told["left"]) == (1, 0)
    told = json.loads(run("drain", "--queue", "b", url=db_url, cwd=project, **variables).stdout)
    assert told["ok"] == 1


def test_lingering_and_retries_where_nothing_is_runnable_yet(fresh: str, tmp_path: Path) -> None:
    """Asked to wait, a drain waits, though there is nothing to do when it begins."""
    with fleets.work(fresh, tmp_path) as work:
        work.add("boom")
        with fleets.running(fresh, tmp_path, verb="drain", procs=1) as first:
            assert first.process.wait(20) == 0
        assert work.states() == {"scheduled": 1}
        options = ("--wait-retries", "5s", "--fail-on", "never")
        with fleets.running(fresh, tmp_path, *options, verb="drain", procs=1) as second:
            assert second.process.wait(20) == 0
        assert work.states() == {"dead": 1}
        with fleets.running(fresh, tmp_path, "--linger", "3s", verb="drain", procs=1) as third:
            fleets.wait_registered(work, 1)
            ids = work.add("ordinary")
            assert third.process.wait(20) == 0
        work.exactly_once(ids)


def test_many_workers_end_together(fresh: str, tmp_path: Path) -> None:
    """Eight workers, work for a moment: the end is not put off by anybody's dear look."""
    with fleets.work(fresh, tmp_path) as work:
        for _ in range(3):
            work.add("noop", 500)
            began = time.monotonic()
            with fleets.running(fresh, tmp_path, verb="drain", procs=8) as fleet:
                assert fleet.process.wait(60) == 0
            assert work.empty()
            assert time.monotonic() - began < 20
