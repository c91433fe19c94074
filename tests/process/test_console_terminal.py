"""The terminal of the live view: given back at every end, and what happens while it does not read."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.commands import command
from tests.consoles import APP, console_of, fleet, variables
from tests.fleets import QUICK, Work, wait_registered
from tests.servers import gone, process_state, stopped, wait_until
from tests.terminals import Pty, terminal

pytestmark = pytest.mark.process
FULL = pytest.mark.full
OTHERS = (signal.SIGTERM, signal.SIGSEGV)


# -- the terminal is given back -------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=FULL)])
def test_signals_to_the_parent(queue: Work, number: signal.Signals) -> None:
    with fleet(queue) as one:
        one.wait_for("SLOT", "q stop")
        assert one.modes() != one.before
        os.kill(one.pid, number)
        assert one.end() == 0
        assert one.is_as_before()
        assert f"stopping ({number.name})" in one.text()


def test_ctrl_c(queue: Work) -> None:
    with fleet(queue) as one:
        one.wait_for("SLOT", "q stop")
        one.type("\x03")
        assert one.end() == 0
        assert one.is_as_before()


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, *(pytest.param(one, marks=FULL) for one in OTHERS)]
)
def test_a_killed_console_is_replaced(queue: Work, number: signal.Signals) -> None:
    (task,) = queue.add("sleepy", seconds=300)
    with fleet(queue) as one:
        one.wait_for(f"{task}  sleepy", "q stop")
        workers = wait_registered(queue, 2)
        first = console_of(one.pid)
        assert first is not None
        os.kill(first, number)
        wait_until(lambda: console_of(one.pid) not in (None, first), why="another console")
        one.wait_for("console ended", f"{task}  sleepy")
        assert queue.workers() == workers
        assert (queue.row(task) or {})["attempt"] == 1
        one.type("qy")
        assert one.end() == 0
        assert one.is_as_before()


def test_ctrl_c_keeps_the_view_to_the_end(queue: Work) -> None:
    (task,) = queue.add("sleepy", seconds=300)
    with fleet(queue, "--grace", "2s") as one:
        one.wait_for(f"{task}  sleepy")
        one.type("\x03")
        one.wait_for("stopping (SIGINT): 1 task in hand")
        assert one.end() == 0
        assert one.is_as_before()


def test_a_console_killed_during_the_stop_leaves_a_sane_terminal(queue: Work) -> None:
    (task,) = queue.add("stubborn", seconds=300)
    with fleet(queue) as one:
        one.wait_for(f"{task}  stubborn")
        one.type("qy")
        one.wait_for("stopping")
        console = console_of(one.pid)
        assert console is not None
        os.kill(console, signal.SIGKILL)
        one.end()
        assert one.is_as_before()


def test_the_parent_killed(queue: Work) -> None:
    with fleet(queue) as one:
        one.wait_for("SLOT", "q stop")
        children = [*wait_registered(queue, 2).values(), console_of(one.pid)]
        os.kill(one.pid, signal.SIGKILL)
        one.end()
        wait_until(lambda: all(gone(pid) for pid in children if pid), why="all gone")
        wait_until(one.is_as_before, why="the terminal as it was")
        one.wait_for("supervisor: has died, and its workers with it")


def test_a_stopped_console_disturbs_nobody(queue: Work) -> None:
    """SIGSTOP, and CONT before it counts as silent."""
    with fleet(queue) as one:
        one.wait_for("SLOT", "q stop")
        console = console_of(one.pid)
        assert console is not None
        with stopped(console):
            ids = queue.add("ordinary", 50)
            wait_until(queue.empty, 20, "the work is done")
        queue.exactly_once(ids)
        one.type("?")
        one.wait_for("Keys")


def test_a_terminal_that_is_gone(queue: Work) -> None:
    """Its window was closed: the fleet stops as at any first signal, and nobody is left."""
    (task,) = queue.add("sleepy", seconds=300)
    with fleet(queue) as one:
        one.wait_for(f"{task}  sleepy")
        children = [*wait_registered(queue, 2).values(), console_of(one.pid)]
        os.close(one.slave)
        os.close(one.master)
        one.master, one.slave = os.pipe()
        assert one.process is not None
        assert one.process.wait(30) == 0
        wait_until(lambda: all(gone(pid) for pid in children if pid), why="all gone")
        assert queue.states() == {"ready": 1}


@pytest.mark.full
def test_a_console_that_stays_stopped_is_replaced(queue: Work) -> None:
    with fleet(queue) as one:
        one.wait_for("SLOT", "q stop")
        workers = wait_registered(queue, 2)
        console = console_of(one.pid)
        assert console is not None
        os.kill(console, signal.SIGSTOP)
        wait_until(lambda: console_of(one.pid) not in (None, console), 60, "another console")
        one.wait_for("killing console: silent")
        assert queue.workers() == workers
        one.type("qy")
        assert one.end() == 0
        assert one.is_as_before()


@pytest.mark.parametrize("how", ["key", pytest.param("signal", marks=FULL)])
def test_ctrl_z_and_fg(queue: Work, how: str) -> None:
    """With a shell that has job control in between, as a person has."""
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("needs bash")
    typed = " ".join(command("start", "--procs", "2", *APP, *QUICK))
    env = variables(queue, PS1="prompt> ")
    with terminal([shell, "--norc", "--noprofile", "-i"], queue.directory, env) as one:
        one.wait_for("prompt>")
        one.type(typed + "\n")
        one.wait_for("SLOT", "q stop")
        parent = int(Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split()[0])
        if how == "key":
            one.type("\x1a")
        else:
            os.kill(parent, signal.SIGTSTP)
        one.wait_for("Stopped", "prompt>")
        assert process_state(parent) == "T"
        assert one.sent.rfind(b"\x1b[?1049l") > one.sent.rfind(b"\x1b[?1049h")
        one.type("stty -a | grep -c ' icanon'; echo sane\n")
        one.wait_for("\n1\nsane\n")  # and not what the shell echoes
        one.type("fg\n")
        one.wait_for("SLOT", "q stop")
        one.type("qy")
        one.wait_for("prompt>")
        one.type("exit\n")
        assert one.end() == 0


# -- a terminal that does not read ----------------------------------------------------------------


def undisturbed(queue: Work, one: Pty, seconds: float, silence: bool) -> int:
    """A long task and many short ones, while nothing reads for so long, and more lines than the log's
    pipe holds; the id of a task that printed something after those."""
    workers = wait_registered(queue, 3)
    (long,) = queue.add("sleepy", seconds=seconds - 1)
    end = time.monotonic() + seconds
    queue.add("chatty")
    ids = [long]
    while time.monotonic() < end:
        ids += queue.add("ordinary", 5)
        time.sleep(0.1)
        if not silence:
            one.pump()
    wait_until(queue.empty, 20, "everything is done")
    queue.exactly_once(ids)
    assert queue.workers() == workers, "a worker was replaced"
    assert [line for line in queue.noted("start") if line[2] != "1"] == []
    (last,) = queue.add("prints")
    wait_until(queue.empty, 20, "it has printed")
    return last


@pytest.mark.parametrize("leases", [1, pytest.param(3, marks=pytest.mark.full)])
@pytest.mark.parametrize("how", ["ctrl-s", "nobody reads"])
def test_a_terminal_that_stands_still(queue: Work, how: str, leases: int) -> None:
    with fleet(queue, procs=3) as one:
        one.wait_for("SLOT", "q stop")
        console = console_of(one.pid)
        if how == "ctrl-s":
            one.type("\x13")
        last = undisturbed(queue, one, 5.0 * leases, silence=how != "ctrl-s")
        assert console_of(one.pid) == console, "it was killed for being silent"
        one.type("\x11")
        one.type("5")
        one.wait_for(f"hello from {last}")
        one.type("?")
        one.wait_for("Keys")
        one.type("xqy")
        assert one.end() == 0
        assert one.is_as_before()


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=FULL)])
def test_ctrl_s_does_not_keep_the_terminal_from_being_given_back(
    queue: Work, how: signal.Signals
) -> None:
    with fleet(queue) as one:
        one.wait_for("SLOT", "q stop")
        one.type("\x13")
        one.pump(0.5)
        os.kill(one.pid, how)
        assert one.end() == 0
        assert one.is_as_before()


@pytest.mark.parametrize("leases", [1, pytest.param(3, marks=pytest.mark.full)])
def test_a_pager_that_stands_still(queue: Work, leases: int) -> None:
    """`runner start 2>&1 | less`, and nobody scrolls: the pipe fills, and stays full."""
    read, write = os.pipe()
    typed = command("start", "-v", "--procs", "3", *APP, *QUICK)
    process = subprocess.Popen(
        typed,
        stdin=subprocess.DEVNULL,
        stdout=write,
        stderr=write,
        cwd=queue.directory,
        env=variables(queue),
    )
    os.close(write)
    try:
        workers = wait_registered(queue, 3)
        (long,) = queue.add("sleepy", seconds=5.0 * leases)
        ids = [long, *queue.add("ordinary", 400)]
        queue.add("prints", 600)
        wait_until(queue.empty, 5.0 * leases + 20, "everything is done")
        queue.exactly_once(ids)
        assert queue.workers() == workers
    finally:
        process.terminate()
        code = process.wait(30)
        os.close(read)
    assert code == 0
