"""Every way to type it wrong: one clear line, the right exit code, no secret."""

import json
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from runner.embedded import Embedded
from tests.commands import APP, Result, environment, error_of, run
from tests.servers import Connection, create_database, database_url

pytestmark = pytest.mark.process
SECRET = "S3cr3tXyz"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(APP)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("start --procs 0", "--procs: 0 is too few: at least 1"),
        ("start --procs -1", "--procs: -1 is too few: at least 1"),
        ("start --procs abc", "--procs: 'abc' is no whole number"),
        ("start --procs 1e9", "--procs: '1e9' is no whole number"),
        ("start --procs 1000000000", "--procs: 1000000000 is too many: at most 1000"),
        ("start --lease 2s", "--lease 2s is too short: at least 3s"),
        ("start --renew 15s", "--renew 15s must be above 0 and at most a third of --lease 30s"),
        ("start --renew 0", "--renew 0s must be above 0 and at most a third of --lease 30s"),
        ("start --lease nan", "--lease: 'nan' is no duration"),
        ("start --queue =2", "--queue: empty"),
        ("start --queue a,,b", "--queue: empty"),
        ("start --queue a=0", "--queue: 0 is too few: at least 1"),
        ("start --queue a=x", "--queue: 'x' is no whole number"),
        ("start --queue a,a", "--queue a is given twice"),
        (f"start --queue {'ä' * 32}", "--queue: longer than 63 bytes in UTF-8"),
        ("start --queue a\x1b[2J", "--queue: holds a character that does not print"),
        ("start --queue a=4 --procs 2", "--queue asks for 4 workers, --procs gives 2"),
        ("start --queue a=2,b --procs 2", "no worker is left for the queues without a number"),
        ("start --priority x", "--priority: 'x' is not TYPE=N"),
        ("start --priority x=12", "--priority: must be from 0 (first) to 9 (last)"),
        ("start --fair nan", "--fair: 'nan' is no number from 0 to 1"),
        ("start --fair 1.5", "--fair: '1.5' is no number from 0 to 1"),
        ("start --backoff 0:1s", "--backoff: '0:1s': the first delay must be above 0"),
        ("start --poll 0", "--poll: 0 is too short"),
        ("start --max-memory-per-child 1x", "--max-memory-per-child: '1x' is no size"),
        ("start --max-tasks-per-child 0", "--max-tasks-per-child: 0 is too few: at least 1"),
        ("start --lese 30s", "no such option: --lese (did you mean --lease?)"),
        ("start --lease", "option '--lease' requires an argument"),
        ("drain extra", "got unexpected extra argument (extra)"),
        ("drain --overlap maybe", "--overlap: 'maybe' is not one of 'skip', 'allow'"),
        ("drian", "no such verb: drian (did you mean drain?)"),
        ("stat", "no such verb: stat (did you mean status?)"),
        ("enqueue", "missing argument"),
        ("enqueue hello {", "params: not JSON"),
        ("enqueue hello NaN", "params: NaN is not JSON"),
        ('enqueue hello {"a":1,"a":2}', 'params: the key "a" stands twice in one object'),
        (r'enqueue hello ["\u0000"]', "params[0]: holds U+0000"),
        (r'enqueue hello ["\ud800"]', "params[0]: holds a lone surrogate"),
        (f"enqueue hello {'[' * 101 + ']' * 101}", "params: nested more than 100 deep"),
        ("enqueue hello --priority 10", "priority: must be from 0 (first) to 9 (last)"),
        ("enqueue hello --at 2030-01-01T00:00", "--at: without a time zone"),
        ("enqueue hello --at 9999-01-01T00:00Z", "--at: must be between 1970 and the year 9000"),
        ("enqueue hello --in 101000d", "--in: '101000d' is more than 100 years"),
        ("enqueue hello --in 1s --at 2030-01-01T00:00Z", "--in and --at exclude each other"),
        ("status --check max-dad=0", "--check: 'max-dad' is no bound"),
        ("status --check max-dead=few", "--check: 'few' is no whole number"),
        ("--embedded --database-url x status", "--embedded and --database-url exclude each other"),
        ("demo /nonexistent", "directory '/nonexistent' does not exist"),
    ],
)
def test_bad_input_is_told_in_a_line(arguments: str, told: str, project: Path, db_url: str) -> None:
    result = run(*arguments.split(" "), url=db_url, cwd=project)
    assert error_of(result).startswith(told)
    assert result.returncode == 2
    assert result.stdout == ""


def test_a_variable_counts_as_its_option(project: Path, db_url: str) -> None:
    result = run("start", url=db_url, cwd=project, RUNNER_START_PROCS="0")
    assert error_of(result) == "--procs: 0 is too few: at least 1"
    assert run("drain", url=db_url, cwd=project, RUNNER_UNSAFE="all").returncode == 2


@pytest.mark.parametrize(
    "verb", ["status", "workers", "drain", "start", "init", "check", "enqueue x"]
)
def test_without_a_database_nothing_happens(verb: str, project: Path) -> None:
    result = run(*verb.split(), cwd=project)
    assert result.stderr == "runner: error: no database: set DATABASE_URL\n"
    assert result.returncode == 78


def test_an_empty_variable_is_no_database(project: Path) -> None:
    result = run("status", url="", cwd=project, RUNNER_DATABASE_URL="", PGHOST="")
    assert (result.stderr, result.returncode) == (
        "runner: error: no database: set DATABASE_URL\n",
        78,
    )


def test_the_app_is_sought_in_four_places(tmp_path: Path, db_url: str) -> None:
    result = run("drain", url=db_url, cwd=tmp_path)
    told = error_of(result)
    assert all(place in told for place in ("-A", "RUNNER_APP", "setup.cfg", "tasks.py"))
    assert result.returncode == 78


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("def f(:", "tasks.py:1: SyntaxError"),
        ("import os\n\nraise OSError('disk')", "tasks.py:3: OSError: disk"),
        ("import sys\nsys.exit(0)", "tasks.py:2: calls sys.exit(0) at import"),
        ("import nosuchmodule", "ModuleNotFoundError: No module named 'nosuchmodule'"),
        ("x = 1", "app tasks has no Registry"),
        (APP + "\ntasks.task('hello')(boom)", "two handlers are called hello"),
        (APP + "\n@tasks.task\ndef h(a): pass", "must take exactly (tx, task)"),
        (APP + "\n@tasks.task\nasync def h(tx, task): pass", "is async"),
    ],
)
@pytest.mark.parametrize("verb", ["check", "drain"])
def test_an_app_that_does_not_load(
    verb: str, source: str, told: str, tmp_path: Path, db: Connection, db_url: str
) -> None:
    db.execute("insert into runner.task (task_type) values ('hello')")
    (tmp_path / "tasks.py").write_text(source)
    result = run(verb, "--procs", "1", url=db_url, cwd=tmp_path)
    assert told in error_of(result)
    assert result.returncode == 78


def test_check_lists_handlers_and_warns_of_none(project: Path, db_url: str) -> None:
    result = run("check", url=db_url, cwd=project)
    assert result.returncode == 0, result
    header, *rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert header[:2] == ["type", "max_attempts"]
    assert [row[:2] for row in rows] == [["again", "9"], ["boom", "1"], ["hello", "5"]]
    (project / "tasks.py").write_text("import runner.registry as r\ntasks = r.Registry()")
    result = run("check", url=db_url, cwd=project)
    assert "warning: app tasks registers no handlers" in result.stderr
    assert result.returncode == 0


def test_more_workers_than_connections_is_told_with_the_arithmetic(
    project: Path, db_url: str
) -> None:
    result = run("check", "--procs", "500", url=db_url, cwd=project)
    assert "500 workers need 505 connections" in result.stderr
    assert "max_connections" in result.stderr
    assert result.returncode == 0


# -- databases that cannot be used ----------------------------------------------------------------


def test_unreachable_is_69(project: Path) -> None:
    for url in ("postgresql://u@127.0.0.1:1/d", "postgresql://u@nowhere.invalid/d"):
        result = run("status", "--connect-wait", "0", url=url, cwd=project)
        assert error_of(result).startswith("cannot reach the database at u@")
        assert result.returncode == 69


def test_no_such_database_or_role_is_78(project: Path, db_url: str, server: Embedded) -> None:
    wrong = [database_url(server.url, "nothing"), db_url.replace("//postgres@", "//nobody@")]
    for url in wrong:
        result = run("status", url=url, cwd=project)  # and without waiting for --connect-wait
        assert "does not exist" in error_of(result)
        assert result.returncode == 78


def test_schema_missing_older_newer(project: Path, fresh: str, server: Embedded) -> None:
    bare = create_database(server, "runner_bare")
    try:
        result = run("drain", url=bare, cwd=project)
        assert result.stderr.splitlines()[1] == "hint: run: runner init"
        assert result.returncode == 78
    finally:
        with psycopg.connect(database_url(server.url, "postgres"), autocommit=True) as conn:
            conn.execute("drop database runner_bare with (force)")
    with psycopg.connect(fresh, autocommit=True) as conn:
        for version, hint in ((0, "run: runner migrate"), (999, "install")):
            conn.execute("update runner.meta set version = %s", [version])
            for verb in ("drain", "start", "status", "init"):
                result = run(verb, url=fresh, cwd=project)
                assert result.returncode == 78, result
                assert result.stderr.splitlines()[1].startswith(f"hint: {hint}")


def test_a_missing_privilege_is_named(project: Path, fresh: str) -> None:
    with psycopg.connect(fresh, autocommit=True) as conn:
        conn.execute("drop role if exists runner_reader; create role runner_reader login")
        try:
            url = fresh.replace("//postgres@", "//runner_reader@")
            result = run("status", url=url, cwd=project)
            assert error_of(result) == "permission denied for schema runner"
            assert result.returncode == 78
        finally:
            conn.execute("drop role runner_reader")


# -- secrets --------------------------------------------------------------------------------------

MALFORMED = [
    f"postgresql://u:a@{SECRET}@h/db",
    f"postgresql://u:{SECRET}@a@h/db",
    f"postgresql://u:a/{SECRET}@h/db",
    f"postgresql://u:{SECRET}/a@h/db",
    f"postgresql://u:a/{SECRET}",
    f"postgresql://u:{SECRET}",
    f"postgresql://u:{SECRET}%zz@h/db",
    f"postgresql://u:{SECRET}@h:abc/db",
    f"postgresql://u:{SECRET}@[::1/db",
    f"postgresql://u:{SECRET}@h/db?x",
    f"postgresql://u:{SECRET}@h/db?nosuch=1",
    f"postgresql://u@h/db?pasword={SECRET}",
    f"postgresql://u:{SECRET}@h/a/b",
    f"postgresql://u:{SECRET}@h h/db",
    f"postgresql://u;{SECRET}@h/db",
    f"postgresql://u=x:{SECRET}@h/db",
    f"postgresql:/u:{SECRET}@h/db",
    f"postgresql//u:{SECRET}@h/db",
    f"postgresql:u:{SECRET}@h/db",
    f"postgres+psycopg://u:a@{SECRET}@h/db",
    f"mysql://u:{SECRET}@h/db",
    f"https://u:{SECRET}@h/db",
    f"u:{SECRET}@h/db",
    SECRET,
    f"host=h password='{SECRET}",
    f"host=h password={SECRET} x",
    f"host=h;password={SECRET};user=u",
    f"host=h passwd={SECRET}",
    f"password={SECRET} host",
    f"jdbc:postgresql://h/db?user=u&password={SECRET}",
    f"postgresql://u:{SECRET}@h/db\n",
    f"{{'password': '{SECRET}'}}",
]
WELL_FORMED = [
    f"postgresql://u:{SECRET}@127.0.0.1:1/db",
    f"postgresql+psycopg2://u:{SECRET}@127.0.0.1:1/db",
    f"host=127.0.0.1 port=1 user=u password={SECRET}",
    f"postgresql://u:{SECRET}@nowhere.invalid/db?sslmode=require",
]


# Many commands in one process: each would need a third of a second of its own.
BATCH = """
import json, os, sys
from runner.cli import run
for environment, arguments in json.load(sys.stdin):
    os.environ.pop("DATABASE_URL", None)
    os.environ.update(environment)
    print(run(arguments), flush=True)
"""


def test_no_channel_shows_the_password(project: Path) -> None:
    commands: list[tuple[dict[str, str], list[str]]] = []
    for url in MALFORMED + WELL_FORMED:
        commands += [
            ({"DATABASE_URL": url}, ["status", "-vv", "--connect-wait", "0"]),
            ({}, ["drain", "-vv", "--database-url", url, "--connect-wait", "0"]),
            ({}, ["status", url if url != SECRET else "x"]),
            ({}, [url if url != SECRET else "x", "status"]),
        ]
    result = subprocess.run(
        [sys.executable, "-c", BATCH],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        cwd=project,
        env=environment(),
        check=True,
    )
    assert SECRET not in result.stdout + result.stderr
    codes = [line.split()[0] for line in result.stdout.splitlines()]
    assert len(codes) == len(commands)
    assert set(codes) == {"2", "69", "78"}


@pytest.mark.parametrize("url", [MALFORMED[0], MALFORMED[-1], *WELL_FORMED[:2]])
def test_no_process_shows_the_password(url: str, project: Path) -> None:
    result = run("status", "-vv", "--connect-wait", "0", url=url, cwd=project)
    assert SECRET not in result.stdout + result.stderr
    assert result.returncode in (69, 78)


def test_internal_errors_are_one_line_and_a_traceback_with_v(project: Path, db_url: str) -> None:
    sabotage = "import runner.cli.status as s\ns.look = None\nfrom runner.cli import main\nmain()\n"
    (project / "sabotage.py").write_text(sabotage)

    def go(*arguments: str) -> Result:
        return subprocess.run(
            [sys.executable, "sabotage.py", "status", *arguments],
            capture_output=True,
            text=True,
            cwd=project,
            env=environment(DATABASE_URL=db_url),
            check=False,
        )

    quiet, loud = go(), go("-v")
    assert quiet.returncode == loud.returncode == 70
    assert error_of(quiet).startswith("internal: TypeError: ")
    assert loud.stderr.startswith("Traceback (most recent call last)")
