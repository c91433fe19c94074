"""`runner start`, the embedded database behind a verb, and what ends a command early."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from runner.embedded import status, stop
from tests.commands import APP, command, environment, error_of, run, run_on_terminal
from tests.servers import reachable_directory, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(APP)
    return tmp_path


@pytest.fixture
def home() -> Iterator[Path]:
    with reachable_directory() as path:
        yield path / "home"
        stop(path / "home")


@contextmanager
def running(*arguments: str, cwd: Path, **env: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment(**env),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=30)


def test_start_works_until_it_is_stopped(project: Path, fresh: str) -> None:
    arguments = ("start", "-v", "--procs", "2", "--lease", "5s", "--no-console", "--poll", "100ms")
    with (
        psycopg.connect(fresh, autocommit=True) as conn,
        running(*arguments, cwd=project, DATABASE_URL=fresh) as process,
    ):
        workers = "select count(*) = 2 from runner.worker"
        wait_until(lambda: conn.execute(workers).fetchone() == (True,))
        conn.execute("insert into runner.task (task_type) values ('hello')")
        wait_until(lambda: conn.execute("select from runner.task").fetchone() is None)
        rows = run("workers", url=fresh).stdout.splitlines()
        assert len(rows) == 3
        process.terminate()
        out, told = process.communicate(timeout=30)
        assert (out, process.returncode) == ("", 0)
        assert "task 1 (hello) done" in told


def test_start_says_what_is_unsafe_and_what_will_not_fit(project: Path, fresh: str) -> None:
    variables = {"DATABASE_URL": fresh, "RUNNER_UNSAFE": "no-timer, no-kill"}
    with running("start", "--procs", "1", cwd=project, **variables) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line == "runner: warning: RUNNER_UNSAFE=no-kill,no-timer: for tests only\n"


def test_the_app_may_be_named_in_setup_cfg(tmp_path: Path, fresh: str) -> None:
    (tmp_path / "elsewhere.py").write_text(APP)
    (tmp_path / "setup.cfg").write_text("[runner]\napp = elsewhere:tasks\n")
    assert "elsewhere.py" in run("check", url=fresh, cwd=tmp_path).stdout
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "tasks.py").write_text(APP)
    assert (
        "below" in run("check", "-A", "tasks", "--app-dir", "below", url=fresh, cwd=tmp_path).stdout
    )
    assert "below" in run("check", "--app-dir", "below", url=fresh, cwd=tmp_path).stdout
    (tmp_path / "setup.cfg").write_text(
        "[metadata]\nname = 100%\n[runner]\napp = elsewhere:tasks\n"
    )
    assert "elsewhere.py" in run("check", url=fresh, cwd=tmp_path).stdout
    (tmp_path / "setup.cfg").write_bytes(b"[metadata]\nauthor = Andr\xe9\n")
    result = run("check", url=fresh, cwd=tmp_path)
    assert error_of(result).startswith("setup.cfg: ")
    assert result.returncode == 78
    (tmp_path / "setup.cfg").write_text("runner\n")
    result = run("check", url=fresh, cwd=tmp_path)
    assert error_of(result).startswith("setup.cfg: ")
    assert result.returncode == 78


def test_an_interrupt_while_the_app_is_imported_is_no_fault_of_it(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text("raise KeyboardInterrupt")
    result = run("check", url="postgresql://u@127.0.0.1:1/d", cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_an_interrupt_is_130_and_silent(project: Path) -> None:
    arguments = ("status", "--connect-wait", "60s")
    url = "postgresql://u@127.0.0.1:1/d"
    with running(*arguments, cwd=project, DATABASE_URL=url) as process:
        wait_until(lambda: _sleeps(process.pid), why="it tries again")
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=10) == ("", "")
        assert process.returncode == 130


def test_who_waits_for_long_is_told_why(project: Path) -> None:
    url = "postgresql://u@127.0.0.1:1/d"
    with running("start", "--procs", "1", cwd=project, DATABASE_URL=url) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        assert re.match(r"runner: waiting 5\d s more: cannot reach the database at u@", told)
        assert "refused" in told
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=10) == ("", "")
        assert process.returncode == 130


def _sleeps(pid: int) -> bool:
    """Whether it has come to the pause between two tries: before, an import may be interrupted."""
    return "nanosleep" in Path(f"/proc/{pid}/wchan").read_text()


# -- the embedded database ------------------------------------------------------------------------


def test_embedded_has_to_be_asked_for(project: Path, home: Path) -> None:
    arguments = ("drain", "--procs", "1")
    assert run(*arguments, cwd=project, RUNNER_HOME=str(home)).returncode == 78
    assert not home.exists()
    told = f"runner: using the embedded database in {home}\n"
    result = run(*arguments, "--embedded", cwd=project, RUNNER_HOME=str(home))
    assert (result.stdout, result.stderr, result.returncode) == ("", told, 0)
    more = {"RUNNER_HOME": str(home), "RUNNER_EMBEDDED": "1"}
    result = run("enqueue", "hello", cwd=project, **more)
    assert (result.stdout, result.stderr, result.returncode) == ("1\n", told, 0)
    result = run(*arguments, "--json", cwd=project, **more)
    assert '"ok": 1' in result.stdout
    assert not status(home).running  # the last one out has stopped it


def test_embedded_by_itself_on_a_terminal(project: Path, home: Path) -> None:
    shown, code = run_on_terminal("status", url="", cwd=project, RUNNER_HOME=str(home))
    assert code == 0
    assert shown.startswith(f"runner: using the embedded database in {home}\n")


def test_a_url_beats_the_variable_and_the_option_beats_a_url(
    project: Path, home: Path, fresh: str
) -> None:
    variables = {"RUNNER_HOME": str(home), "RUNNER_EMBEDDED": "1"}
    assert run("status", url=fresh, cwd=project, **variables).stderr == ""
    assert not home.exists()
    assert "embedded" in run("status", "--embedded", url=fresh, RUNNER_HOME=str(home)).stderr


def test_the_embedded_server_lives_as_long_as_the_fleet(project: Path, home: Path) -> None:
    arguments = ("start", "-v", "--procs", "1", "--embedded", "--lease", "5s")
    with running(*arguments, cwd=project, RUNNER_HOME=str(home)) as process:
        wait_until(lambda: home.exists() and status(home).running, timeout=20)
        result = run("enqueue", "hello", "--embedded", cwd=project, RUNNER_HOME=str(home))
        assert result.returncode == 0
        assert process.stderr is not None
        assert any("task 1 (hello) done" in line for line in iter(process.stderr.readline, ""))
        assert status(home).running
        process.terminate()
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert not status(home).running


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user's directory")
def test_a_home_that_cannot_be_made(project: Path) -> None:
    result = run("status", "--embedded", cwd=project, RUNNER_HOME="/proc/runner")
    assert error_of(result).startswith("cannot make /proc/runner")
    assert result.returncode == 70
