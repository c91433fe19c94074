"""Every way to type it wrong: one clear line, the right exit code, no secret."""

import json
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from runner.embedded import Embedded
from tests.commands import APP, Result, environment, error_of, run
from tests.servers import Connection, create_database, database_url

pytestmark = pytest.mark.process
SECRET = "S3cr3tXyz"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(APP)
    return tmp_path


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
    looked = f"hint: looked in {tmp_path}; --app-dir DIR looks in another directory"
    assert result.stderr.splitlines()[1:] == [looked]
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


def test_an_app_without_a_registry_is_told_what_it_needs(tmp_path: Path, db_url: str) -> None:
    (tmp_path / "tasks.py").write_text("x = 1")
    hint = run("check", url=db_url, cwd=tmp_path).stderr.splitlines()[1]
    first, second = re.findall("`(.+?)`", hint)
    (tmp_path / "tasks.py").write_text(f"{first}\n{second}\n")
    assert run("check", url=db_url, cwd=tmp_path).returncode == 0


def test_params_as_pairs_are_shown_the_right_form(db_url: str) -> None:
    result = run("enqueue", "hello", "path=S3cr3t.jpg", url=db_url)
    assert result.returncode == 2
    assert result.stderr.splitlines()[1] == """hint: params are JSON: '{"path": "…"}'"""
    assert "S3cr3t" not in result.stderr


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


@pytest.mark.parametrize("options", ["-c", "-c no_such_setting=1"])
def test_options_that_the_server_refuses_are_78(project: Path, db_url: str, options: str) -> None:
    """At once: no retry mends them."""
    url = make_conninfo(db_url, options=options)
    result = run("start", "--procs", "1", url=url, cwd=project)
    assert error_of(result).startswith("cannot use the database at ")
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
    sabotage = (
        "import runner.store.looking as s\ns.look = None\nfrom runner.cli import main\nmain()\n"
    )
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
