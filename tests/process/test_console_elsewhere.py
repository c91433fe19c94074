"""Where there is no live view, and the view of a fleet that runs elsewhere."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.commands import command
from tests.consoles import APP, fleet, variables, watcher
from tests.fleets import QUICK, Work, wait_registered
from tests.servers import stopped, wait_until
from tests.terminals import terminal

pytestmark = pytest.mark.process
FULL = pytest.mark.full


# -- where there is no live view ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "size"),
    [
        ({"TERM": "dumb"}, {}),
        ({"NO_COLOR": "1"}, {}),
        pytest.param({"LANG": "C"}, {}, marks=FULL),
        pytest.param({"LC_ALL": "POSIX"}, {}, marks=FULL),
        pytest.param({}, {"columns": "20"}, marks=FULL),
        pytest.param({"arguments": "--no-console"}, {}, marks=FULL),
    ],
    ids=str,
)
def test_plain_lines(queue: Work, more: dict[str, str], size: dict[str, str]) -> None:
    options = more.get("arguments", "").split()
    env = {name: value for name, value in more.items() if name != "arguments"}
    with fleet(queue, *options, **env, **size) as one:
        wait_registered(queue, 2)
        queue.add("prints")
        wait_until(lambda: b"hello from" in (one.pump(), one.sent)[1])
        assert b"\x1b" not in one.sent
        assert one.modes() == one.before
        os.kill(one.pid, signal.SIGTERM)
        assert one.end() == 0
        assert b"Traceback" not in one.sent


@pytest.mark.parametrize(
    "closed",
    [
        "<&- >&- 2>&-",
        *(pytest.param(one, marks=FULL) for one in ("<&-", ">&-", "2>&-", "</dev/null")),
    ],
)
def test_closed_streams(queue: Work, closed: str) -> None:
    typed = " ".join(command("start", "--procs", "1", *APP, *QUICK)) + " " + closed
    with terminal(["sh", "-c", f"exec {typed}"], queue.directory, variables(queue)) as one:
        ids = queue.add("ordinary")
        wait_until(lambda: (one.pump(), queue.empty())[1], 20)
        queue.exactly_once(ids)
        os.kill(one.pid, signal.SIGTERM)
        assert one.end() == 0
        assert b"Traceback" not in one.sent
        assert one.is_as_before()


def test_asked_for_it_is_shown_without_colours_or_signs(queue: Work) -> None:
    with fleet(queue, "--console", NO_COLOR="1", LANG="C", LC_ALL="C") as one:
        one.wait_for("SLOT", "q stop")
        assert one.sent.isascii()
        assert not any(f"\x1b[{code}m".encode() in one.sent for code in (31, 32, 33, 36))
        one.type("qy")
        assert one.end() == 0


# -- watching from elsewhere ----------------------------------------------------------------------


def test_watch_from_anywhere(queue: Work) -> None:
    (task,) = queue.add("sleepy", seconds=300)
    with fleet(queue, "--no-console"), watcher(queue) as one:
        one.wait_for("SLOT", f" {task}  sleepy", "q leave")
        one.type("q")
        assert one.end() == 0
        assert one.is_as_before()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_watch_ended_by_a_signal(queue: Work, number: signal.Signals) -> None:
    with watcher(queue) as one:
        one.wait_for("no worker is alive")
        os.kill(one.pid, number)
        assert one.end() == 0
        assert one.is_as_before()


def test_watch_ends_with_its_terminal(queue: Work) -> None:
    """Its window was closed: it does not go on asking for nobody."""
    with watcher(queue) as one:
        one.wait_for("no worker is alive")
        os.close(one.slave)
        os.close(one.master)
        one.master, one.slave = os.pipe()
        assert one.process is not None
        assert one.process.wait(20) == 0


def test_watch_while_the_database_goes_and_comes(queue: Work) -> None:
    with watcher(queue) as one:
        one.wait_for("no worker is alive")
        end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name ~ 'console'"
        queue.conn.execute(end)
        one.wait_for("no answer from the database")
        one.wait_for("no answer from the database", gone=True)
        queue.add("ordinary")
        one.wait_for("1 task waiting")


def test_a_database_that_hangs_does_not_hold_up_the_keys(queue: Work) -> None:
    with watcher(queue) as one:
        one.wait_for("no worker is alive")
        find = "select pid from pg_stat_activity where application_name ~ 'console'"
        (backend,) = queue.conn.execute(find).fetchone() or (0,)
        with stopped(backend):
            one.wait_for("no answer from the database for")
            one.type("?")
            one.wait_for("Keys")
            one.type("xq")
            assert one.end() == 0
        assert one.is_as_before()


@pytest.mark.parametrize(
    ("more", "columns"),
    [({"NO_COLOR": "1"}, 100), ({"LANG": "C"}, 100), ({"TERM": "dumb"}, 100), ({}, 20)],
    ids=str,
)
def test_watch_in_lines_on_a_terminal(queue: Work, more: dict[str, str], columns: int) -> None:
    env = variables(queue, **more)
    with terminal(command("status", "--watch"), queue.directory, env, columns) as one:
        wait_until(lambda: b" ready=0 scheduled=0" in (one.pump(), one.sent)[1])
        os.kill(one.pid, signal.SIGINT)
        assert one.end() in (0, 130)
        assert b"\x1b" not in one.sent
        assert b"Traceback" not in one.sent


def test_watch_in_lines(queue: Work) -> None:
    queue.add("ordinary", 2)
    process = subprocess.Popen(
        command("status", "--watch"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables(queue),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        for _ in range(2):
            assert " ready=2 scheduled=0 running=0 dead=0" in process.stdout.readline()
        process.stdout.close()  # the reader has had enough
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


def test_the_picture(queue: Work, tmp_path: Path) -> None:
    queue.add("ordinary", 3)
    path = tmp_path / "view.svg"
    result = subprocess.run(
        command("status", "--svg", str(path)),
        capture_output=True,
        env=variables(queue),
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    assert "ordinary" in path.read_text("utf-8")
