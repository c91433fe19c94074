"""Cases about what is shown: P-54, P-68, P-69, P-73."""

import os
import re
from pathlib import Path

import pytest

from tests import fleets
from tests.cases.aftermath import Scene
from tests.cases.test_database_changes import end_backends
from tests.servers import wait_until
from tests.terminals import bare_terminal

pytestmark = [pytest.mark.process, pytest.mark.db]
HABITS = "tests.apps.habits"
NAMES = ("привет", "🎉 fête", "日本語")

CANNOT_ENCODE = [
    ({"PYTHONIOENCODING": "ascii"}, True),
    ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, False),
    ({"PYTHONIOENCODING": "latin-1", "LC_ALL": "de_DE.ISO-8859-1"}, False),
]


def work_of_any_name(work: fleets.Work) -> list[int]:
    """Tasks whose types no narrow encoding can say, and which print it."""
    return [task for name in NAMES for task in work.add(name, 3)]


@pytest.mark.case("P-54")
@pytest.mark.parametrize(("variables", "viewed"), CANNOT_ENCODE, ids=["ascii", "C", "latin-1"])
@pytest.mark.parametrize("where", ["pipe", "terminal"])
def test_p54_a_stream_that_cannot_say_it(
    scene: Scene, variables: dict[str, str], viewed: bool, where: str
) -> None:
    """In whatever encoding: all is done, nothing is raised, the exit code is 0; lines escape what they
    cannot say. A terminal whose locale is no UTF-8 gets lines, too."""
    work = scene.work
    ids = work_of_any_name(work)
    with bare_terminal() as terminal:
        on = terminal if where == "terminal" else None
        with scene.fleet(app=HABITS, procs=2, on=on, ends=0, TERM="xterm", **variables) as fleet:
            if on is not None and viewed:
                on.wait_for("SLOT")
                on.pump(1.0)  # a frame or two with those names
            wait_until(work.empty, 20)
            fleet.process.terminate()
            assert fleet.process.wait(20) == 0
            assert on is None or on.is_as_before()
        sent = fleet.log_path.read_bytes() if on is None else on.sent
        assert b"Traceback" not in sent
        assert b"UnicodeEncodeError" not in sent
        if not (on and viewed):
            assert rb"\u043f\u0440\u0438\u0432\u0435\u0442 says so" in sent
            assert all(byte < 0x80 or byte in "ê".encode("latin-1") for byte in sent)
    work.exactly_once(ids)


PLAIN = [
    {},
    {"NO_COLOR": "1"},
    {"FORCE_COLOR": "1", "TERM": "xterm-256color", "CLICOLOR_FORCE": "1"},
    {"TERM": "dumb"},
    {"COLUMNS": "20", "TTY_COMPATIBLE": "1", "FORCE_COLOR": "1"},
]


@pytest.mark.case("P-68")
@pytest.mark.parametrize("variables", PLAIN, ids=lambda each: "-".join(each) or "nothing")
def test_p68_output_that_is_no_terminal(scene: Scene, variables: dict[str, str]) -> None:
    """Plain lines in a pipe, whatever the variables ask for, and whatever handlers print."""
    work = scene.work
    (task,) = work.add("talks", lines=20)
    with scene.fleet(app=HABITS, procs=1, **variables) as fleet:
        wait_until(work.empty, 20)
        wait_until(lambda: "no end of line" in fleet.log())
    assert b"\x1b" not in fleet.log_path.read_bytes()
    assert b"\r" not in fleet.log_path.read_bytes()
    work.exactly_once([task])


@pytest.mark.case("P-68")
@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}], ids=str)
def test_p68_terminals_of_few_means_and_any_size(scene: Scene, variables: dict[str, str]) -> None:
    """Without colours there are none; a dumb one gets lines; no size makes the view raise."""
    work = scene.work
    ids = work.add("slow", 60, seconds=0.05)
    with bare_terminal() as terminal:
        env = {"TERM": "xterm"} | variables
        with scene.fleet(procs=2, on=terminal, ends=0, **env) as fleet:
            for columns, lines in ((20, 5), (1, 1), (300, 80), (20, 2), (80, 24)):
                terminal.resize(columns, lines)
                terminal.pump(0.2)
            wait_until(work.empty, 20)
            fleet.process.terminate()
            assert terminal.end() == 0
            assert terminal.is_as_before()
        assert "Traceback" not in fleet.log()
        if "TERM" in variables:
            assert "\x1b" not in fleet.log()
        if "NO_COLOR" in variables:
            assert not re.search(r"\x1b\[[0-9;]*(3|4|9|10)[0-7][0-9;]*m", fleet.log())
    work.exactly_once(ids)


def said(log: str, task: int) -> list[str]:
    """What the lines of a task say."""
    return re.findall(rf"worker 0 task {task}: (.*)$", log, re.MULTILINE)


@pytest.mark.case("P-69")
def test_p69_what_handlers_print_is_lines_of_the_log(scene: Scene) -> None:
    """Complete, in order, with their task, and harmless; what is endless is cut into lines."""
    work = scene.work
    (task,) = work.add("talks", lines=1000)
    with scene.fleet(app=HABITS, procs=1) as fleet:
        wait_until(work.empty, 20)
        wait_until(lambda: "no end of line" in fleet.log())
    lines = said(scene.log(), task)
    assert [line for line in lines if line.startswith("line ")] == [
        f"line {number} of {task}" for number in range(1000)
    ]
    for other in (r"raw bytes \xff", "from a program", "from C", "no end of line"):
        assert sum(other in line for line in lines) == 1, other
    (acts,) = [line for line in lines if "written" in line]
    assert r"\x1b[2J" in acts
    assert "\x1b" not in scene.log()
    long = [line for line in lines if set(line) == {"x"}]
    assert sum(map(len, long)) == 100_000
    assert max(map(len, lines)) <= 2000


@pytest.mark.case("P-69")
def test_p69_handlers_print_under_the_live_view(scene: Scene) -> None:
    """The view is whole, the lines stand in its log, nothing of theirs reaches the terminal raw."""
    work = scene.work
    with bare_terminal(columns=120) as terminal:
        with scene.fleet(app=HABITS, procs=1, on=terminal, ends=0, TERM="xterm") as fleet:
            terminal.wait_for("SLOT")
            console = max(resident_of_children(fleet.pid).values())
            ids = work.add("talks", 20, lines=1000)
            wait_until(lambda: terminal.text() is not None and work.empty(), 30)
            terminal.wait_for("no end of line")
            shown = terminal.text()
            assert "SLOT" in shown
            assert "task" in shown
            # 2 MB were printed in 20,000 lines: the view keeps what fits, not all.
            assert max(resident_of_children(fleet.pid).values()) - console < 30 << 20
            terminal.type("qy")
            assert terminal.end() == 0
            assert terminal.is_as_before()
        assert "\x1b[2J\x1b]0;title" not in fleet.log()
        assert "\x1b]0;title" not in fleet.log()
    work.exactly_once(ids)


def resident_of_children(parent: int) -> dict[int, int]:
    """Bytes in memory of a parent and of each of its children."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    pages = {
        int(pid): int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        for pid in (str(parent), *children)
    }
    return {pid: count * os.sysconf("SC_PAGE_SIZE") for pid, count in pages.items()}


@pytest.mark.case("P-73")
@pytest.mark.parametrize("stops", [4, pytest.param(20, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_p73_ordinary_ends_are_no_errors(scene: Scene, stops: int) -> None:
    """Started and stopped under load, the maker of the passes changed on the way: no line asks for a
    person, none is a traceback (the aftermath looks for both)."""
    work = scene.work
    ids = work.add("slow", 40 * stops, seconds=0.02)
    for _ in range(stops):
        with scene.fleet(procs=3):
            wait_until(lambda: len(work.workers()) == 3, 20)
            end_backends(work, "runner maintainer")
            before = len(work.effects())
            wait_until(lambda least=before: len(work.effects()) > least + 10 or work.empty(), 20)
    with scene.fleet("--max-time", "60s", verb="drain", ends=0) as last:
        assert last.process.wait(80) == 0
    work.exactly_once(ids)
    assert last.log() == ""
    told = [line for line in scene.log().splitlines() if " INFO " not in line]
    assert not told
