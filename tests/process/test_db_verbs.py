"""`runner db …` as it is typed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.embedded import status, stop
from tests.commands import run
from tests.servers import reachable_directory

pytestmark = pytest.mark.process
TOP = Path(__file__).parent.parent.parent
RUN = "from runner.cli.db import db; db()"


@pytest.fixture
def home() -> Iterator[Path]:
    with reachable_directory() as path:
        yield path / "home"
        stop(path / "home")


def run_db(home: Path, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=TOP,
        env={**os.environ, "RUNNER_HOME": str(home), "PGDATABASE": "elsewhere"},
        check=False,
    )


def test_url_and_status_start_nothing(home: Path) -> None:
    told = run_db(home, "url")
    assert told.stdout == status(home).url + "\n"
    assert "not running" in told.stderr
    assert json.loads(run_db(home, "status", "--json").stdout)["running"] is False
    assert not home.exists()


def test_psql_takes_arguments_and_standard_input(home: Path) -> None:
    run_db(home, "start")
    shown = run_db(home, "psql", "-At", "-c", "select current_database()")
    assert (shown.stdout, shown.stderr, shown.returncode) == ("runner\n", "", 0)
    assert run_db(home, "psql", "-At", stdin="select 40 + 2").stdout == "42\n"
    assert run_db(home, "psql", "-Atc", "select current_database()", "postgres").stdout == (
        "postgres\n"
    )
    assert run_db(home, "psql", "-c", "select nope").returncode == 1
    assert "psql" in run_db(home, "psql", "--help").stdout


def test_start_keeps_it_and_stop_ends_it(home: Path) -> None:
    assert run_db(home, "start").stdout == status(home).url + "\n"
    assert "running\tyes\n" in run_db(home, "status").stdout
    assert run_db(home, "stop").returncode == 0
    assert not status(home).running


def test_errors_about_the_database_tell_of_an_embedded_one(home: Path) -> None:
    """Without a URL how to get at it, with its own URL how to start it."""
    there = {"RUNNER_HOME": str(home)}
    alone = "runner: error: no database: set DATABASE_URL\n"
    assert run("status", **there).stderr == alone
    url = run_db(home, "start").stdout.strip()
    export = 'export DATABASE_URL="$(runner db url)"'
    assert run("status", **there).stderr == f"{alone}hint: {export}\n"
    run_db(home, "stop")
    assert run("status", **there).stderr == f"{alone}hint: runner db start; {export}\n"
    for given, hints in ((url, ["hint: runner db start"]), ("postgresql://u@127.0.0.1:1/d", [])):
        result = run("status", "--connect-wait", "0", url=given, **there)
        assert (result.returncode, result.stderr.splitlines()[1:]) == (69, hints)


def test_every_verb_as_json(home: Path) -> None:
    def told(*verb: str) -> dict[str, object]:
        found = json.loads(run_db(home, *verb, "--json").stdout)
        assert isinstance(found, dict)
        return found

    url = status(home).url
    assert told("url") == {"url": url, "running": False}
    assert told("start") == told("url") == {"url": url, "running": True}
    ready = {"DATABASE_URL": url, "RUNNER_HOME": str(home)}
    init = [
        json.loads(run("init", *more, "--json", **ready).stdout) for more in (["--dry-run"], [], [])
    ]
    assert [list(one) for one in init] == [["database", "version", key] for key in STATES]
    assert [one[key] for one, key in zip(init, STATES, strict=True)] == [True, True, False]
    assert told("stop") == {"running": False}
    assert told("reset", "--yes") == {"deleted": str(home)}


STATES = ("pending", "created", "created")


def test_an_input_that_ends_is_no_answer(home: Path) -> None:
    """Not a Ctrl-C: 130 is for that."""
    result = run("db", "reset", stdin="", RUNNER_HOME=str(home))
    assert result.stderr.endswith("runner: error: nothing was answered\n")
    assert result.returncode == 1


def test_reset_asks_first(home: Path) -> None:
    run_db(home, "psql", "-c", "create table kept ()")
    refused = run_db(home, "reset", stdin="n\n")
    assert refused.returncode == 1
    assert "with all its tasks?" in refused.stderr
    assert status(home).version is not None
    assert run_db(home, "reset", "--yes").returncode == 0
    assert status(home).version is None
