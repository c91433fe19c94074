"""What verbs print: shapes, and streams that are closed, full, narrow or cannot encode."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands import APP, command, environment, error_of, run, run_on_terminal
from tests.servers import Connection

pytestmark = pytest.mark.process
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
STATUS = [
    *("database", "ready", "scheduled", "running", "dead", "unknown", "oldest_ready_seconds"),
    *("leases_active", "leases_expired", "retried", "lost_leases", "done_per_second"),
    *("failed_per_second", "pauses", "queues", "types", "workers", "hosts"),
]
ROW = [
    *("name", "ready", "scheduled", "running", "dead", "oldest_ready_seconds", "paused_until"),
]
WORKER = [
    *("host", "pid", "slot", "runner", "state", "task", "type", "attempt", "run_seconds"),
    *("lease_seconds", "rss", "done", "failed", "silent_seconds"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(APP)
    return tmp_path


def fill(db: Connection) -> None:
    """One task in each state, a worker that holds one, and an expired one."""
    worker = db.execute(
        "insert into runner.worker (worker_id, runner_id, role, host, pid, types, lease, lease_until)"
        " values (gen_random_uuid(), gen_random_uuid(), 'worker', 'here', 7, '{a,b}', '30s',"
        " now() + interval '30s') returning worker_id"
    ).fetchone()
    assert worker is not None
    db.execute(
        "insert into runner.worker (worker_id, runner_id, role, host, pid, lease, lease_until)"
        " values (gen_random_uuid(), gen_random_uuid(), 'worker', 'there', 8, '30s',"
        " now() - interval '30s')"
    )
    db.execute("insert into runner.task (task_type) values ('a'), ('c')")
    db.execute("insert into runner.task (queue, task_type, run_at) values ('q', 'a', now() + '1h')")
    db.execute("insert into runner.task (task_type, state) values ('b', 'dead')")
    db.execute(
        "insert into runner.task (task_type, state, lease_owner, claimed_at, attempt)"
        " values ('b', 'running', %s, now(), 1)",
        [worker[0]],
    )
    db.execute("insert into runner.pause (queue) values ('q')")
    db.execute("insert into runner.pause (task_type, until) values ('a', '2999-01-01T00:00Z')")


def status(url: str, cwd: Path, *arguments: str) -> dict[str, Any]:
    result = run("status", "--json", *arguments, url=url, cwd=cwd)
    assert result.stderr == ""
    (line,) = result.stdout.splitlines()
    seen: dict[str, Any] = json.loads(line)
    return seen


def test_status_as_json(project: Path, db: Connection, db_url: str) -> None:
    fill(db)
    seen = status(db_url, project)
    assert list(seen) == STATUS
    numbers = {key: seen[key] for key in ("ready", "scheduled", "running", "dead", "unknown")}
    assert numbers == {"ready": 2, "scheduled": 1, "running": 1, "dead": 1, "unknown": 1}
    assert (seen["leases_active"], seen["leases_expired"]) == (1, 1)
    assert 0 <= seen["oldest_ready_seconds"] < 60
    for row in (*seen["queues"], *seen["types"]):
        assert set(ROW) <= set(row)
    assert [(row["name"], row["paused_until"]) for row in seen["queues"]] == [
        ("default", None),
        ("q", "infinity"),
    ]
    assert [(row["name"], row["ready"], row["paused_until"]) for row in seen["types"]] == [
        ("a", 1, "2999-01-01T00:00:00.000+00:00"),
        ("b", 0, None),
        ("c", 1, None),
    ]
    first, second = seen["workers"]
    assert list(first) == WORKER
    assert (first["state"], first["type"], first["attempt"]) == ("running", "b", 1)
    assert 0 < first["lease_seconds"] <= 30
    assert (second["state"], second["task"], second["lease_seconds"] < 0) == ("expired", None, True)
    states = [("here", "running"), ("there", "lost")]
    assert [(one["host"], one["state"]) for one in seen["hosts"]] == states


def test_status_tells_what_stands_still_and_what_to_type(
    project: Path, db: Connection, db_url: str
) -> None:
    """A pause is easily forgotten, one of a type in a queue as well; also without any worker."""
    fill(db)
    db.execute("insert into runner.pause (queue, task_type) values ('default', 'c')")
    told = run("status", url=db_url, cwd=project).stderr.splitlines()
    assert sorted(told) == [
        "runner: queue q is paused: 0 waiting: runner resume q",
        "runner: type a is paused: 1 waiting: runner resume --type a",
        "runner: type c has no handler: 1 waiting: runner todo",
        "runner: type c in queue default is paused: 1 waiting: runner resume default --type c",
    ]
    assert run("status", "--quiet", url=db_url, cwd=project).stderr == ""
    db.execute("delete from runner.worker")
    (first, *_) = run("status", url=db_url, cwd=project).stderr.splitlines()
    assert first == "runner: no worker is alive: 2 waiting: runner start"
    for number in range(20):
        db.execute("insert into runner.pause (task_type) values (%s)", [f"old {number}"])
    told = run("status", url=db_url, cwd=project).stderr.splitlines()
    assert len(told) == 1 + 8 + 1
    assert told[-1] == "runner: and 16 more such queues or types"


def test_workers_by_host(db: Connection, db_url: str) -> None:
    fill(db)
    lines = run("workers", "--by-host", url=db_url).stdout.splitlines()
    assert [line.split("\t")[:4] for line in lines] == [
        ["host", "state", "workers", "running"],
        ["here", "running", "1", "1"],
        ["there", "lost", "1", "0"],
    ]
    there = json.loads(run("workers", "--by-host", "--json", url=db_url).stdout.splitlines()[1])
    assert there["silent_seconds"] >= 60


def test_tables_are_tsv_where_no_terminal_is(project: Path, db: Connection, db_url: str) -> None:
    fill(db)
    rows = [line.split("\t") for line in run("status", url=db_url).stdout.splitlines()]
    assert rows[0][:4] == ["kind", "name", "ready", "scheduled"]
    assert [row[0] for row in rows[1:]] == ["total", "queue", "queue", "type", "type", "type"]
    assert {len(row) for row in rows} == {len(rows[0])}
    rows = [line.split("\t") for line in run("workers", url=db_url).stdout.splitlines()]
    assert rows[0] == WORKER
    assert [row[0] for row in rows[1:]] == ["here", "there"]
    lines = run("workers", "--json", url=db_url).stdout.splitlines()
    assert [list(json.loads(line)) for line in lines] == [WORKER, WORKER]


def test_dates_that_python_cannot_read(project: Path, db: Connection, db_url: str) -> None:
    for run_at in ("infinity", "12000-01-01", "-infinity", "4000-01-01 BC"):
        for state in ("ready", "scheduled", "dead"):
            db.execute(
                "insert into runner.task (task_type, state, run_at, created_at)"
                " values ('odd', %s, %s, %s)",
                [state, run_at, run_at],
            )
    db.execute(
        "insert into runner.worker (worker_id, runner_id, role, host, pid, lease, lease_until)"
        " values (gen_random_uuid(), gen_random_uuid(), 'worker', 'odd', 1, '1s', 'infinity')"
    )
    db.execute("insert into runner.pause (queue, until) values ('x', 'infinity')")
    db.execute("insert into runner.pause (queue, until) values ('y', '12000-01-01')")
    seen = status(db_url, project)
    assert (seen["ready"] + seen["scheduled"], seen["dead"]) == (8, 4)
    assert [row["paused_until"] for row in seen["queues"]][1:] == ["infinity", "infinity"]
    for arguments in (("status",), ("workers",), ("drain", "--dry-run")):
        assert run(*arguments, url=db_url, cwd=project).returncode == 0


def test_bounds(project: Path, db: Connection, db_url: str) -> None:
    db.execute("insert into runner.task (task_type, state) values ('a', 'dead'), ('a', 'ready')")
    db.execute("update runner.task set created_at = now() - interval '1h', run_at = created_at")
    db.execute("update runner.task set run_at = now() - interval '1h'")
    result = run("status", "--check", "max-dead=1,max-oldest=2h,max-ready=1", url=db_url)
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)
    result = run("status", "--check", "max-oldest=30m,max-dead=0", url=db_url)
    assert error_of(result).startswith("oldest is 360")
    assert error_of(result).endswith("more than 1800; dead is 1, more than 0")
    assert result.returncode == 1


def test_enqueue_prints_the_id_or_nothing(project: Path, db: Connection, db_url: str) -> None:
    result = run("enqueue", "hello", '{"a": [1, "ü"]}', "--key", "k", url=db_url)
    row = db.execute("select task_id::text || e'\\n', params from runner.task").fetchone()
    assert row == (result.stdout, {"a": [1, "ü"]})
    again = run("enqueue", "hello", "--key", "k", url=db_url)
    assert (again.stdout, again.stderr) == ("", "runner: already queued\n")
    assert again.returncode == 0
    assert run("drain", "--procs", "1", url=db_url, cwd=project).returncode == 0
    again = run("enqueue", "hello", "--key", "k", "--json", url=db_url)
    assert (json.loads(again.stdout), again.stderr) == ({"id": None}, "runner: already done\n")
    later = run("enqueue", "hello", "--in", "1h", "--queue", "q", "--priority", "0", url=db_url)
    query = "select queue, priority, state from runner.task where task_id = %s"
    assert db.execute(query, [later.stdout.strip()]).fetchone() == ("q", 0, "scheduled")


def test_the_url_of_the_command_line_beats_variables(db: Connection, db_url: str) -> None:
    wrong = "postgresql://u@127.0.0.1:1/d"
    more = {"RUNNER_DATABASE_URL": wrong, "RUNNER_STATUS_DATABASE_URL": wrong}
    for arguments in (
        ["--database-url", db_url, "status"],
        ["status", "--database-url", db_url],
        ["--database-url", wrong, "status", "--database-url", db_url],
    ):
        assert run(*arguments, url=wrong, **more).returncode == 0
    assert run("status", url=wrong, RUNNER_DATABASE_URL=db_url).returncode == 0
    spelt = db_url.replace("postgresql://", "postgresql+psycopg2://")
    assert run("status", url=spelt).returncode == 0


def test_libpqs_own_variables(db: Connection, db_url: str) -> None:
    info = db.info
    variables = {"PGHOST": info.host, "PGPORT": str(info.port), "PGUSER": info.user}
    assert run("status", PGDATABASE=info.dbname, **variables).returncode == 0
    result = run("status", PGDATABASE="nothing", **variables)
    assert (error_of(result)[-14:], result.returncode) == ("does not exist", 78)


def test_init(fresh: str) -> None:
    assert run("init", "--sql").stdout == (Path(__file__).parents[2] / "schema.sql").read_text()
    result = run("init", url=fresh)
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)
    result = run("init", "--dry-run", url=fresh)
    assert result.stderr.startswith("runner: the schema runner is there (database ")


# -- streams --------------------------------------------------------------------------------------


def shell(script: str, url: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script.replace("runner", " ".join(command()), 1)],
        capture_output=True,
        cwd=cwd,
        env=environment(DATABASE_URL=url, **env),
        timeout=60,
        check=False,
    )


def test_a_reader_that_leaves(project: Path, db: Connection, db_url: str) -> None:
    db.execute(
        "insert into runner.task (task_type) select 'type ' || n from generate_series(1, 9999) n"
    )
    for script in (
        "runner status 2>&1 | head -1",
        "runner status --json 2>&1 | head -c 9",
        "runner drain --dry-run 2>&1 | true",
        "runner --help 2>&1 | true",
        "runner start --help 2>&1 | head -1",
        "runner init --sql 2>&1 | true",
    ):
        result = shell(script, db_url, project)
        assert result.stderr == b""
        assert result.returncode == 0, script
        assert result.stdout.count(b"\n") <= 1


def test_streams_that_are_closed(project: Path, db: Connection, db_url: str) -> None:
    db.execute("insert into runner.task (task_type) values ('hello'), ('boom')")
    result = shell("runner status >&-", db_url, project)
    assert result.returncode == 0
    assert result.stderr == b"runner: no worker is alive: 2 waiting: runner start\n"
    result = shell("runner drain --procs 1 --json <&- >&- 2>&-", db_url, project)
    assert (result.stdout, result.stderr, result.returncode) == (b"", b"", 1)
    assert db.execute("select task_type, state from runner.task").fetchall() == [("boom", "dead")]
    assert shell("runner nonsense >&- 2>&-", db_url, project).returncode == 2
    result = shell("runner enqueue hello --from - <&-", db_url, project)
    assert (result.stderr, result.returncode) == (b"", 0)
    db.execute("insert into runner.task (task_type) values ('boom')")
    assert shell("runner drain --procs 1 2>&-", db_url, project).returncode == 1
    assert shell("runner dead discard --all <&-", db_url, project).returncode == 2  # nobody to ask


def test_a_full_disk_is_told(project: Path, db_url: str) -> None:
    result = shell("runner status >/dev/full", db_url, project)
    assert b"cannot write to standard output: No space left" in result.stderr
    assert result.returncode == 70
    assert shell("runner nonsense 2>/dev/full", db_url, project).returncode == 2


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1", "LANG": "C"},
        {"LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"TERM": "dumb"},
        {"NO_COLOR": "1", "COLUMNS": "20"},
        {"FORCE_COLOR": "1", "TERM": "xterm"},
    ],
)
def test_any_terminal_and_any_pipe(
    variables: dict[str, str], project: Path, db: Connection, db_url: str
) -> None:
    db.execute("insert into runner.task (task_type, state) values ('привет 🎉', 'dead')")
    db.execute(
        "insert into runner.task (task_type) values (e'\\x1b[2J[red]\\u202e\\ta\\nb'), ('[/]')"
    )
    for arguments in (["status"], ["status", "--json"], ["drain", "--dry-run"], ["--help"]):
        result = run(*arguments, url=db_url, cwd=project, **variables)
        assert result.returncode == 0
        assert bool(result.stderr) == (arguments == ["status"])  # what stands still
        assert "Traceback" not in result.stderr
        assert "\x1b" not in result.stdout + result.stderr
        assert "\u202e" not in result.stdout + result.stderr
    shown, code = run_on_terminal("status", url=db_url, cwd=project, **variables)
    assert (code, "Traceback" in shown) == (0, False)
    assert "\x1b[2J" not in shown
    result = run("drain", "--procs", "1", url=db_url, cwd=project, **variables)
    assert result.returncode == 0
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("locale", [{"LANG": "C"}, {"LC_ALL": "POSIX"}], ids=str)
def test_a_terminal_of_the_c_locale_gets_ascii(
    locale: dict[str, str], project: Path, db: Connection, db_url: str
) -> None:
    db.execute("insert into runner.task (task_type) values ('nobody')")
    for verb in (["check"], ["todo"], ["status"], ["list"], ["doctor", "--procs", "1"]):
        shown, _ = run_on_terminal(*verb, url=db_url, cwd=project, **locale)
        assert shown.strip()
        assert shown.isascii(), shown


def test_a_table_on_a_terminal(project: Path, db: Connection, db_url: str) -> None:
    fill(db)
    shown, code = run_on_terminal("status", url=db_url, cwd=project, NO_COLOR="1", COLUMNS="120")
    assert code == 0
    for word in ("queues", "types", "workers", "oldest ready", "default", "resumed"):
        assert word in shown


@pytest.mark.parametrize("width", [60, 100, 200])
def test_a_terminal_shows_what_matters(
    width: int, project: Path, db: Connection, db_url: str
) -> None:
    fill(db)
    db.execute("update runner.task set cause = 'ValueError', last_error = repeat('x', 300)")
    for verb in (["list"], ["dead", "list"], ["workers"], ["status"]):
        shown, code = run_on_terminal(*verb, url=db_url, cwd=project, COLUMNS=str(width))
        assert code == 0
        assert max(map(len, COLOURS.sub("", shown).split("\n"))) <= width
        assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}|\d\d:\d\d:\d\d", shown), shown
        words = ["state", "running"] if verb != ["dead", "list"] else ["state", "dead"]
        words += ["ValueError", "ago", "id"] if "list" in verb else ["type"]
        assert all(word in shown for word in words), shown


def test_the_board_tells_how_long_ago(project: Path, db: Connection, db_url: str) -> None:
    fill(db)
    db.execute("update runner.task set attempt = 1, cause = 'KeyError', last_failed_at = now()")
    shown, code = run_on_terminal("todo", url=db_url, cwd=project, COLUMNS="200")
    assert code == 0
    assert all(word in shown for word in ("not implemented", "failing now", "dead", " ago"))
    assert not re.search(r"\d\d:\d\d:\d\d", shown), shown
    assert re.search(r"\d\d:\d\d:\d\d", run("todo", url=db_url, cwd=project).stdout)


def test_help_and_version_need_nothing(tmp_path: Path) -> None:
    for arguments in (["--help"], ["-h"], ["start", "-h"], ["db", "status", "-h"]):
        result = run(*arguments, cwd=tmp_path)
        assert (result.stdout[:6], result.stderr, result.returncode) == ("Usage:", "", 0)
    for arguments in (["--version"], ["drain", "--version"]):
        assert run(*arguments, cwd=tmp_path).stdout.startswith("runner ")
    assert run(cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["drain", "-A", "x"], 0), (["nosuch"], 2), (["enqueue", "noop", "{"], 2)],
)
def test_a_full_disk_behind_stderr_changes_no_exit_code(
    fresh: str, arguments: list[str], code: int
) -> None:
    """Python itself would end with 120, which is in no table."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "runner", *arguments],
            env={"PATH": os.environ["PATH"], "DATABASE_URL": fresh},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=full,
            timeout=30,
            check=False,
        )
    assert done.returncode == code
