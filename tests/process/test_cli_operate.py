"""The operating verbs as people and scripts use them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.store import schema
from tests.commands import APP, Result, environment, error_of, run, run_on_terminal
from tests.db.stage import add, announce, one, row
from tests.servers import Connection

pytestmark = [pytest.mark.process, pytest.mark.db]

TASK = [
    *("id", "type", "queue", "state", "priority", "attempt", "max_attempts", "run_at"),
    *("created_at", "key", "worker", "last_error", "cause"),
]
WHOLE = [*TASK, "params", "fence", "claimed_at", "lease_until", "post_mortem", "released"]
EVIL = "\x1b]0;evil\x07\u202e[bold]"
GONE = "done, or never committed (completed tasks are deleted)"


class Box:
    """Runs commands against one database, in a directory without an app."""

    def __init__(self, db: Connection, url: str, directory: Path) -> None:
        self.db, self.url, self.directory = db, url, directory

    def __call__(self, *arguments: str, **options: Any) -> Result:
        return run(*arguments, url=self.url, cwd=self.directory, **options)

    def ok(self, *arguments: str, **options: Any) -> str:
        """What it wrote; it must succeed and be silent on stderr but for notices."""
        result = self(*arguments, **options)
        assert result.returncode == 0, result
        assert "error" not in result.stderr
        return result.stdout

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ok(*arguments, "--json").splitlines()]


@pytest.fixture
def box(db: Connection, db_url: str, tmp_path: Path) -> Box:
    return Box(db, db_url, tmp_path)


def test_list_in_the_agreed_shape(box: Box) -> None:
    add(box.db, "mail", 2, queue="slow", params='{"a": 1}')
    add(box.db, EVIL, state="dead", last_error=EVIL, cause=EVIL)
    found = box.lines("list")
    assert [list(one) for one in found] == [TASK] * 3
    assert found[2]["type"] == EVIL
    text = box.ok("list")
    assert text.splitlines()[0].split("\t") == TASK
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert [each["id"] for each in box.lines("list", "--type", "mail", "--limit", "1")] == [
        found[0]["id"]
    ]
    assert "more than 1: --limit 0" in box("list", "--limit", "1").stderr
    assert len(box.lines("list", "--limit", "0", "--state", "dead", "--state", "ready")) == 3
    assert box.lines("list", str(found[1]["id"])) == [found[1]]
    assert box.lines("list", "--after", str(found[2]["id"])) == [found[2]]


def test_a_program_gets_all_tasks(box: Box) -> None:
    """The usual limit is for people at a terminal; `--all` lifts it there, too."""
    box.db.execute(
        "insert into runner.task (task_type, state) select 'mail', 'dead' from generate_series(1, 1200)"
    )
    for verb in (["list"], ["dead", "list"], ["dead", "list", "--all"]):
        assert len(box.ok(*verb).splitlines()) == 1201
    assert len(box.lines("dead", "show", "--all")) == 1200
    shown, code = run_on_terminal("list", url=box.url, cwd=box.directory)
    assert ("more than 1000: --limit 0 shows all" in shown, code) == (True, 0)
    shown, code = run_on_terminal("dead", "list", "--all", url=box.url, cwd=box.directory)
    assert (shown.count("mail") >= 1200, code) == (True, 0)


def test_show_in_the_agreed_shape(box: Box) -> None:
    (task,) = add(box.db, params='{"n": 1e400, "s": "\u202e\u007f\U0001f600"}', run_at="infinity")
    out = box.ok("show", str(task), "--json")
    assert out.isascii()
    (found,) = [json.loads(line) for line in out.splitlines()]
    assert list(found) == [*WHOLE, "note"]
    assert found["run_at"] == "infinity"
    assert found["params"] == {"n": 10**400, "s": "\u202e\u007f\U0001f600"}
    assert f"id\t{task}\n" in box.ok("show", str(task))


def test_show_on_a_terminal_is_two_columns(box: Box) -> None:
    (task,) = add(box.db, state="dead", post_mortem="one\ntwo")
    shown, code = run_on_terminal("show", str(task), url=box.url, cwd=box.directory)
    assert code == 0
    assert "\t" not in shown
    lines = shown.splitlines()
    (state,) = (one for one in lines if one.startswith("state "))
    at = state.index("dead")
    (first,) = (number for number, one in enumerate(lines) if one.startswith("post_mortem "))
    assert [one[at:] for one in lines[first : first + 2]] == ["one", "two"]


def test_show_of_what_is_gone(box: Box) -> None:
    done, cancelled = add(box.db, count=2)
    box.db.execute("delete from runner.task where task_id = %s", [done])
    box.ok("cancel", str(cancelled))
    assert box.ok("show", str(done)) == f"task {done} is {GONE}\n"
    assert f"task {cancelled} was cancelled by " in box.ok("show", str(cancelled))
    (told,) = box.lines("show", str(cancelled))
    assert (told["state"], told["removed"]) == (None, "cancelled")
    never = cancelled + 1
    result = box("show", str(never))
    assert (result.returncode, error_of(result)) == (1, f"task {never} was never issued")
    assert box("show", "x").returncode == box("show", "0").returncode == 2
    assert box("show", "9" * 19).returncode == 2
    assert box("show", "9" * 30).returncode == 2


def test_explain(box: Box) -> None:
    (task,) = add(box.db)
    assert box.ok("explain", str(task)).startswith(f"task {task} is ready, but no worker is alive")
    (told,) = box.lines("explain", str(task))
    assert list(told) == ["id", "state", "reason", "sentence"]
    assert (told["id"], told["state"], told["reason"]) == (task, "ready", "no worker")
    assert box.lines("explain", str(task + 1))[0]["reason"] == "never issued"


def test_todo_without_and_with_workers_and_an_app(box: Box) -> None:
    add(box.db, "later", 3, params='{"path": "a.jpg"}')
    add(box.db, "hello", 1)
    add(box.db, "boom", state="dead", cause="ValueError", last_error="ValueError: x\nmore")
    again = {"attempt": 1, "max_attempts": 5, "last_failed_at": "2030-01-01", "cause": "E"}
    add(box.db, "hello", 2, last_error=EVIL, **again)
    result = box("todo", "--json")
    assert "cannot be told" in result.stderr
    assert [json.loads(line)["kind"] for line in result.stdout.splitlines()] == ["failing", "dead"]
    (box.directory / "tasks.py").write_text(
        "import runner\nprint('noise')\ntasks = runner.Registry()\n"
        "@tasks.task\ndef hello(tx, task): pass\n"
    )
    unknown, failing, dead = box.lines("todo")
    assert {"type", "count", "first_seen", "sample"} < set(unknown)
    assert (unknown["type"], unknown["count"]) == ("later", 3)
    assert unknown["sample"] == {"path": "a.jpg"}
    assert (failing["type"], failing["count"], failing["error"]) == ("hello", 2, EVIL)
    assert (dead["type"], dead["count"], dead["error"]) == ("boom", 1, "ValueError: x")
    assert "\x1b" not in box.ok("todo")
    (total,) = box.lines("status")
    assert total["unknown"] == 3, "as todo says"
    (later,) = (one["id"] for one in box.lines("list", "--type", "later", "--limit", "1"))
    told = box.ok("explain", str(later))
    assert "no worker is alive" in told
    assert "the app here has no handler for its type later" in told
    announce(box.db, "later")
    assert [one["kind"] for one in box.lines("todo")] == ["failing", "dead"]


def test_todo_says_when_the_app_does_not_load(box: Box) -> None:
    add(box.db, "later")
    announce(box.db, "hello")
    (box.directory / "tasks.py").write_text("1 / 0")
    result = box("todo", "--json")
    assert "warning: app tasks: " in result.stderr
    assert json.loads(result.stdout)["type"] == "later"


def test_the_scaffold_runs(box: Box) -> None:
    add(box.db, "resize_photo", params='{"path": "a.jpg", "size": 3}')
    add(box.db, "odd one", params="[1]")
    announce(box.db, "hello")
    text = box.ok("todo", "--scaffold")
    (box.directory / "tasks.py").write_text(text)
    checked = [one["type"] for one in box.lines("check")]
    assert checked == ["odd one", "resize_photo"]
    assert "path: str" in text
    assert box("todo", "--scaffold").stdout == ""


def test_dead_verbs(box: Box) -> None:
    dead = add(box.db, "mail", 3, state="dead", last_error="Timeout", attempt=5, max_attempts=5)
    add(box.db, "other", 2, state="dead")
    assert [one["id"] for one in box.lines("dead", "list", "--type", "mail")] == dead
    assert [list(one) for one in box.lines("dead", "show", "--error", "timeout")] == [WHOLE] * 3
    assert [
        json.loads(line)
        for line in box.ok("dead", "requeue", str(dead[0]), "--json").split("\n")[:1]
    ] == [{"requeued": 1, "skipped": 0}]
    assert row(box.db, dead[0]).state == "ready"
    preview = box("dead", "requeue", "--type", "mail", "--dry-run", "--json")
    assert "would requeue 2 tasks" in preview.stderr
    assert [json.loads(line)["id"] for line in preview.stdout.splitlines()] == dead[1:]
    box.ok("dead", "discard", "--error", "TIMEOUT", "--yes")
    assert len(box.lines("dead", "list")) == 2
    assert "discarded by" in box.ok("show", str(dead[1]))


def test_a_filter_that_fits_nothing_changes_nothing(box: Box) -> None:
    add(box.db, "mail", 1, state="scheduled")
    for verb in ("requeue", "discard"):
        for which in (("--type", "nope"), ("--all", "--yes")):
            result = box("dead", verb, *which)
            assert result.stderr == "runner: error: no dead task fits: nothing changed\n"
            assert (result.stdout, result.returncode) == ("", 1)
        result = box("dead", verb, "--all", "--json")
        assert list(json.loads(result.stdout).values()) == [0, 0]
        assert result.returncode == 1


def test_a_type_that_nobody_knows_is_paused_and_told(box: Box) -> None:
    told = "runner: no task and no handler of that type is known"
    result = box("pause", "--type", "import_cvss")
    assert (result.returncode, result.stderr.split("\n")[0]) == (0, told)
    assert result.stderr.split("\n")[1] == "runner: type import_cvss is paused until it is resumed"
    add(box.db, "import_csv")
    announce(box.db, "resize")
    assert f"{told} (did you mean import_csv?)\n" in box("pause", "--type", "import_cvss").stderr
    assert f"{told} (did you mean resize?)\n" in box("pause", "--type", "rezise").stderr
    for known in ("import_csv", "resize"):
        assert told not in box("pause", "--type", known).stderr
    (box.directory / "tasks.py").write_text(APP)
    assert told not in box("pause", "--type", "hello").stderr


def test_more_than_one_is_not_touched_unasked(box: Box) -> None:
    first, second = add(box.db, "mail", 2, state="dead")
    for arguments in (("--all",), ("--type", "mail"), (str(first), str(second))):
        for verb in ("requeue", "discard"):
            result = box("dead", verb, *arguments)
            assert result.returncode == 2
            assert (
                error_of(result) == f"would {verb} 2 tasks: say --yes to do so without being asked"
            )
    for arguments in ((), ("--all", "7"), ("7", "--type", "x")):
        assert box("dead", "requeue", *arguments).returncode == 2
    assert {one["state"] for one in box.lines("list")} == {"dead"}
    box.ok("dead", "requeue", str(first), str(second), "--yes")
    assert {one["state"] for one in box.lines("list")} == {"ready"}


def test_on_a_terminal_it_asks(box: Box) -> None:
    add(box.db, "mail", 2, state="dead")
    code = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    command = [
        sys.executable,
        "-c",
        code,
        sys.executable,
        "-m",
        "runner",
        "dead",
        "discard",
        "--all",
    ]
    for answer, left in (("n\n", 2), ("y\n", 0)):
        result = subprocess.run(
            command,
            input=answer,
            capture_output=True,
            text=True,
            env=environment(DATABASE_URL=box.url),
            timeout=30,
        )
        assert "discard 2 tasks? [y/N]" in result.stdout
        assert (result.returncode == 0) == (left == 0)
        assert one(box.db, "select count(*) from runner.task") == left


def test_what_is_not_dead_is_told_and_left(box: Box) -> None:
    (ready,) = add(box.db)
    (scheduled,) = add(box.db, run_at="infinity")
    (done,) = add(box.db)
    (dead,) = add(box.db, state="dead")
    box.db.execute("delete from runner.task where task_id = %s", [done])
    result = box("dead", "requeue", str(ready))
    assert result.returncode == 1
    assert error_of(result) == f"task {ready} is ready, not dead: nothing changed"
    assert box("dead", "discard", str(scheduled)).returncode == 1
    box.ok("dead", "requeue", str(scheduled))
    assert row(box.db, scheduled).state == "ready"
    result = box("dead", "requeue", str(done), str(dead), str(ready))
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "runner: requeued 1 task",
        f"runner: error: task {done} is {GONE}: nothing changed",
        f"runner: error: task {ready} is ready, not dead: nothing changed",
    ]
    assert row(box.db, dead).state == "ready"


def test_pause_and_resume(box: Box) -> None:
    add(box.db, "t", queue="mail")
    (told,) = box.lines("pause", "mail", "--until", "5m")
    assert list(told) == ["queue", "type", "paused_until"]
    status = json.loads(box.ok("status", "--json"))
    assert status["queues"][0]["paused_until"][:19] == told["paused_until"][:19]
    box.ok("pause", "--type", "t", "--until", "2999-01-01T00:00:00+00:00")
    status = json.loads(box.ok("status", "--json"))
    assert status["types"][0]["paused_until"].startswith("2999-01-01T00:00:00")
    assert "until it is resumed" in box("pause", "mail").stderr
    for bad in ("0s", "yesterday", "2020-01-01T00:00:00+00:00", "2030-01-01"):
        assert box("pause", "mail", "--until", bad).returncode == 2
    box.ok("resume", "mail")
    box.ok("resume", "--type", "t")
    result = box("resume", "mail")
    assert (result.returncode, error_of(result)) == (1, "queue mail is not paused: nothing changed")
    assert box("pause").returncode == box("resume").returncode == 2


def test_migrate_and_health(box: Box) -> None:
    assert "nothing to do" in box("migrate").stderr
    assert box.ok("migrate", "--sql") == ""
    assert box.lines("migrate")[0]["applied"] == []
    result = box("health")
    assert (result.returncode, error_of(result)) == (1, "0 workers are alive, fewer than 1")
    box.ok("health", "--min-workers", "0")
    announce(box.db, "t")
    assert box.ok("health") == "ok: 1 worker is alive\n"
    assert box("health", "--here").returncode == 1
    assert list(box.lines("health")[0]) == ["ok", "database", "version", "workers", "runners"]
    box.db.execute("update runner.meta set version = 99")
    try:
        for verb in ("migrate", "health"):
            assert box(verb).returncode == 78
    finally:
        box.db.execute("update runner.meta set version = %s", [schema.VERSION])


def test_tables_on_a_terminal(box: Box) -> None:
    (task,) = add(box.db, EVIL, last_error=EVIL, state="dead", run_at="12000-01-01")
    announce(box.db, "t")
    add(box.db, EVIL)
    for verb in (
        ("list",),
        ("todo",),
        ("dead", "list"),
        ("show", str(task)),
        ("explain", str(task)),
    ):
        shown, code = run_on_terminal(*verb, url=box.url, cwd=box.directory, COLUMNS="60")
        assert code == 0
        assert "evil\x07" not in shown
        assert "\u202e" not in shown
