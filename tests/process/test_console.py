"""The live view, driven through a pseudo-terminal as a person does: every key, every way to end it,
and a terminal that does not read."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.text import storable
from tests.commands import command, environment
from tests.data import NAUGHTY
from tests.fleets import QUICK, ROOT, Work, wait_registered, work
from tests.servers import gone, process_state, stopped, wait_until
from tests.terminals import Pty, terminal

pytestmark = pytest.mark.process
FULL = pytest.mark.full
OTHERS = (signal.SIGTERM, signal.SIGSEGV)
APP = ("-A", "tests.apps.chores", "--app-dir", str(ROOT))


@pytest.fixture
def queue(fresh: str, tmp_path: Path) -> Iterator[Work]:
    with work(fresh, tmp_path) as one:
        yield one


def variables(queue: Work, **more: str) -> dict[str, str]:
    ours = {"DATABASE_URL": queue.url, "CHORES_DIR": str(queue.directory), "PYTHONPATH": str(ROOT)}
    return environment(**ours) | more


@contextmanager
def fleet(queue: Work, *options: str, procs: int = 2, **more: str) -> Iterator[Pty]:
    """`runner start` on a terminal."""
    size = {name: int(more.pop(name)) for name in ("columns", "lines") if name in more}
    typed = command("start", "--procs", str(procs), *APP, *QUICK, *options)
    with terminal(typed, queue.directory, variables(queue, **more), **size) as one:
        yield one


@contextmanager
def watcher(queue: Work, **more: str) -> Iterator[Pty]:
    """`runner status --watch` on a terminal."""
    with terminal(command("status", "--watch"), queue.directory, variables(queue, **more)) as one:
        yield one


def console_of(parent: int) -> int | None:
    """The pid of the live view: of the parent's children the only one in its session."""
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        if os.getsid(int(pid)) == os.getsid(parent) and not gone(int(pid)):
            return int(pid)
    return None


def dies(queue: Work, task_type: str = "boom") -> int:
    """A dead task."""
    (task,) = queue.add(task_type)
    wait_until(lambda: (row := queue.row(task)) and row["state"] == "dead", 20, "dead")
    return task


# -- what is shown, and each key ------------------------------------------------------------------


def test_it_shows_what_is_so(queue: Work) -> None:
    (hanging,) = queue.add("sleepy", seconds=300)
    queue.add("nobody_knows_it", 3)
    with fleet(queue, procs=3) as one:
        shown = one.wait_for(
            "SLOT", "sleepy", "nobody_knows_it has no handler: 3 waiting", "q stop"
        )
        assert f" {hanging} " in shown
        task = dies(queue)
        shown = one.wait_for("dead: the last of 1", "ValueError")
        assert str(task) in shown
        for slot, pid in queue.workers().items():
            assert any(line.split()[:2] == [str(slot), str(pid)] for line in shown.split("\n")), (
                shown
            )
        queue.add("prints")
        shown = one.wait_for("hello from", "and to stderr")
        assert "worker" in shown.split("hello from")[0].split("\n")[-1]
        one.type("qy")
        assert one.end() == 0
        assert one.is_as_before()


def test_keys_that_look(queue: Work) -> None:
    queue.add("sleepy", seconds=300)
    with fleet(queue) as one:
        one.wait_for("sleepy", "1 overview")
        task = dies(queue)
        one.wait_for("dead: the last of 1")
        for name in ("2 workers", "3 queues and types", "4 dead", "5 log"):
            one.type(name[0])
            one.wait_for(name)
        one.type("\t")
        one.wait_for("1 overview")
        one.type("?")
        one.wait_for("Keys", "discard them for good", "this page")
        one.type("\x1b")
        one.wait_for("Keys", gone=True)
        one.type("s")
        one.wait_for("saved as runner-")
        (picture,) = queue.directory.glob("runner-*.svg")
        assert "sleepy" in picture.read_text("utf-8")
        one.type("4\x1b[B\r")
        one.wait_for(f"task {task}", "why", "ValueError: boom", "params")
        one.type("x")
        one.wait_for("params", gone=True)
        one.type("+")
        one.wait_for("every 2s", "a look every 2 s")
        one.type("--")
        one.wait_for("every 0.5s")
        one.type("5 ")
        one.wait_for("5 log", "PAUSED")
        queue.add("nobody_knows_it")
        later = dies(queue)
        one.pump(1.5)
        assert f"task {later}" not in one.text()  # nor in the log, which goes on behind the view
        assert "nobody_knows_it" not in one.text()
        one.type(" ")
        one.wait_for(f"task {later} (boom) is dead")
        one.type("1")
        one.wait_for("nobody_knows_it has no handler")
        assert "PAUSED" not in one.text()


def test_keys_that_change(queue: Work) -> None:
    with fleet(queue) as one:
        one.wait_for("q stop")
        first, second = dies(queue), dies(queue)
        one.type("4")
        one.wait_for("dead: the last of 2")
        one.type("jd")
        one.wait_for(f"discard task {second} (boom) for good?")
        one.type("n")
        one.wait_for("nothing was changed")
        assert queue.row(second) is not None
        one.type("dy")
        one.wait_for("discarded 1 task")
        assert queue.row(second) is None
        one.wait_for("dead: the last of 1")
        queue.conn.execute(
            "update runner.task set params = '{\"mended\": true}', task_type = 'ordinary'"
        )
        one.type("r")
        one.wait_for("choose a dead task")
        one.type("jry")
        one.wait_for("requeued 1 task")
        wait_until(lambda: queue.row(first) is None, why="it is run again")
        one.type("3j")
        queue.conn.execute("insert into runner.task (task_type, queue) values ('nobody', 'spare')")
        one.wait_for("spare")
        one.type("\x1b[Hp")
        one.wait_for("pause queue spare?")
        one.type("y")
        one.wait_for("paused spare", "queue spare is paused: 1 waiting")
        one.type("p")
        one.wait_for("resume queue spare?")
        one.type("y")
        one.wait_for("resumed spare")
        wait_until(lambda: queue.conn.execute("select from runner.pause").fetchone() is None)


def test_kill_a_workers_task(queue: Work) -> None:
    (task,) = queue.add("sleepy", seconds=300)
    with fleet(queue) as one:
        one.wait_for(f"{task}  sleepy")
        before = set(queue.workers().values())
        one.type("2jK")
        shown = one.text()
        if "kill task" not in one.wait_for("kill"):  # the other worker has it
            one.type("jK")
        one.wait_for(f"kill task {task} (sleepy)")
        assert "outside of the database stands" in one.text().replace("\n", ""), shown
        one.type("y")
        one.wait_for("cancelled 1 task")
        assert queue.row(task) is None
        wait_until(lambda: len(set(queue.workers().values()) - before) == 1, 20, "replaced")
        assert queue.conn.execute("select how from runner.removed").fetchall() == [("cancelled",)]


def test_quitting_asks_while_tasks_run(queue: Work) -> None:
    (task,) = queue.add("sleepy", seconds=300)
    with fleet(queue, "--grace", "30s") as one:
        one.wait_for(f"{task}  sleepy")
        one.type("q")
        one.wait_for("stop? 1 task in hand, up to 30 s to end")
        one.type("n")
        one.wait_for("nothing was changed")
        one.type("qy")
        one.wait_for("stopping (SIGTERM): 1 task in hand")
        one.pump(0.6)  # another q in the same half second is the same stop
        one.type("q")
        one.wait_for("stop at once, and give back 1 task?")
        one.type("y")
        assert one.end() == 143
        assert one.is_as_before()
        row = queue.row(task)
        assert row is not None
        assert (row["state"], row["attempt"]) == ("ready", 0)


@pytest.mark.parametrize("columns", [45, *(pytest.param(one, marks=FULL) for one in (20, 60, 150))])
def test_another_size_counts_at_once(queue: Work, columns: int) -> None:
    with fleet(queue) as one:
        one.wait_for("SLOT", "q stop")
        one.resize(columns, 20)
        one.type("?")
        one.wait_for("Keys")
        one.type("x")
        one.wait_for("SLOT", "q stop")
        lines = one.text().split("\n")
        assert len(lines) == 20
        assert lines[0].startswith(" runner")
        assert "q stop" in lines[-1]


OURS = re.compile(rb"\x1b\[[0-9;]*m|\x1b\[\?(?:1049|25)[hl]|\x1b\[H|\r\n")


def test_nothing_hostile_reaches_the_terminal(queue: Work) -> None:
    """Every naughty string as a type that waits, as params, as what a task prints, logs and dies of."""
    texts = [storable(text) for text in NAUGHTY] + ["\x1b]0;title\x07", "\x1b[2J", "[/] [bold]x"]
    with fleet(queue, columns="160", lines="50") as one:
        one.wait_for("SLOT", "q stop")
        for text in texts:
            if 0 < len(text.encode()) < 256:
                queue.add(text)
            queue.add("says", text=text)
        of_says = "select count(*) from runner.task where task_type = 'says' and state <> 'dead'"
        wait_until(lambda: (one.pump(), queue.conn.execute(of_says).fetchone() == (0,))[1], 60)
        one.wait_for("dead: the last of")
        for keys in ("2", "3", "jj\r", "x", "4", "jjj\r", "jj", "x", "jr", "n", "5", "kkk", "1"):
            one.type(keys)
            one.pump(0.3)
        one.type("qy")
        assert one.end() == 0
        left = OURS.sub(b"", one.sent).decode()
        strange = {char for char in left if not char.isprintable() and char not in "\u200c\u200d"}
        assert {char for char in strange if not char.isspace() or char < "\xa0"} == set()
        assert one.screen.title == ""


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
        one.wait_for("sleepy", "q stop")
        workers = queue.workers()
        first = console_of(one.pid)
        assert first is not None
        os.kill(first, number)
        wait_until(lambda: console_of(one.pid) not in (None, first), why="another console")
        one.wait_for("console ended", "sleepy")
        assert queue.workers() == workers
        assert (queue.row(task) or {})["attempt"] == 1
        one.type("qy")
        assert one.end() == 0
        assert one.is_as_before()


def test_a_console_killed_during_the_stop_leaves_a_sane_terminal(queue: Work) -> None:
    queue.add("stubborn", seconds=300)
    with fleet(queue) as one:
        one.wait_for("stubborn")
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
        children = [*queue.workers().values(), console_of(one.pid)]
        os.kill(one.pid, signal.SIGKILL)
        one.end()
        wait_until(lambda: all(gone(pid) for pid in children if pid), why="all gone")
        wait_until(one.is_as_before, why="the terminal as it was")


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
    queue.add("sleepy", seconds=300)
    with fleet(queue) as one:
        one.wait_for("sleepy")
        children = [*queue.workers().values(), console_of(one.pid)]
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
        workers = queue.workers()
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
        one.wait_for("sane\n")
        assert "\n1\n" in one.text()
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
        shown = one.wait_for("SLOT", "sleepy", "q leave")
        assert f" {task} " in shown
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
