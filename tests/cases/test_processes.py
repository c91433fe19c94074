"""Cases about what a process inherits, keeps and leaves: P-39, P-45, P-46, P-47, P-48, P-59, P-70."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from runner import kernel
from runner.seat import Seat
from tests import fleets, servers
from tests.apps import habits
from tests.cases.aftermath import DEAD, Scene, zombies_of
from tests.servers import wait_until

pytestmark = [pytest.mark.db, pytest.mark.process]
HABITS = "tests.apps.habits"
NOTHING = {"SigIgn": 0, "SigBlk": 0}  # is ignored or blocked in a program that a handler starts


def seen(work: fleets.Work) -> list[dict[str, object]]:
    """What handlers wrote down."""
    return [row[0] for row in work.conn.execute("select what from seen").fetchall()]


# -- between two tasks ------------------------------------------------------------------------------


@pytest.mark.case("P-39")
def test_p39_a_handler_with_processes_of_its_own(scene: Scene) -> None:
    """A pool works; one that hangs is killed at the time limit, and leaves no process."""
    work = scene.work
    work.conn.execute(habits.SEEN)
    scene.expect(DEAD + "1 attempt: TimeLimit")
    (good,) = work.add("pools")
    with scene.fleet("--timeout", "1500ms", app=HABITS, procs=1):
        wait_until(work.empty)
        assert seen(work) == [[1, 2]]
        before = set(servers.descendants())
        work.add("pools", hang=True)
        wait_until(lambda: work.noted("hangs"))
        assert set(servers.descendants()) - before
        wait_until(work.only_dead, 20)
        assert work.causes() == {("pools", "time limit", 1): 1}
        fleets.wait_registered(work, 1)
        wait_until(lambda: len(servers.descendants()) == len(before), 10, "the pool's gone")
        assert "Traceback" not in scene.log()  # TERM to the pool's processes is not ours to raise
    work.exactly_once([good])


@pytest.mark.case("P-45")
def test_p45_signals_that_a_handler_has_changed(scene: Scene) -> None:
    """The next task in the same worker, and what it starts, have them as they should be."""
    work = scene.work
    work.conn.execute(habits.SEEN)
    with scene.fleet(app=HABITS, procs=1, ends=0) as fleet:
        (pid,) = fleets.wait_registered(work, 1).values()
        ids = []
        for how in ("ignores", "blocks", "alarm"):
            ids += work.add("deaf", how=how)
            wait_until(work.empty)
            ids += work.add("hears", seconds=1.2 if how == "alarm" else 0)
            wait_until(work.empty)
        assert list(fleets.wait_registered(work, 1).values()) == [pid]
        assert seen(work) == [{"blocked": 0, "ignored": False, "program": NOTHING}] * 3
        work.exactly_once(ids)
        # And TERM still reaches the handler after those: it is released within the grace.
        (last,) = work.add("sleepy", seconds=60)
        wait_until(lambda: work.noted("start"))
        began = time.monotonic()
        assert fleet.stop() == 0
        assert time.monotonic() - began < 30  # half of what the task takes
    row = work.row(last)
    assert row is not None
    assert (row["state"], row["attempt"], row["released"]) == ("ready", 0, 1)
    assert "Traceback" not in fleet.log()


@pytest.mark.case("P-59")
def test_p59_a_changed_working_directory(scene: Scene) -> None:
    """The next task is where the worker was started, though the place of the last one is no more."""
    work = scene.work
    (work.directory / "landmark").write_text("here")
    work.conn.execute(habits.SEEN)
    with scene.fleet(app=HABITS, procs=1):
        (pid,) = fleets.wait_registered(work, 1).values()
        (task,) = work.add("wanders")
        wait_until(work.empty)
        work.add("looks_around")
        wait_until(work.empty)
        assert list(fleets.wait_registered(work, 1).values()) == [pid]
    work.exactly_once([task])
    assert seen(work) == [{"cwd": str(work.directory), "landmark": "here"}]


# -- at the fork ------------------------------------------------------------------------------------

# A parent with a thread that is nearly always holding the locks of logging and of its stream.
BUSY_PARENT = """
import logging, sys, threading
logging.basicConfig(stream=open("/dev/null", "w"), level="INFO")

def chatter():
    while True:
        logging.getLogger("busy").info("x" * 200)

threading.Thread(target=chatter, daemon=True).start()
del sys.argv[:3]
from runner.cli import main
main()
"""


@pytest.mark.case("P-46")
@pytest.mark.parametrize("forks", [30, pytest.param(300, marks=pytest.mark.full)])
def test_p46_locks_held_at_the_moment_of_the_fork(scene: Scene, forks: int) -> None:
    """Every worker forked beside a thread that is always logging gets ready and logs itself."""
    work = scene.work
    busy = work.directory / "busy.py"
    busy.write_text(BUSY_PARENT)
    tasks = work.add("logs", forks)
    options = ("--max-tasks-per-child", "1", "--boot-timeout", "20s")
    with scene.fleet(*options, app=HABITS, under=[sys.executable, "-W", "ignore", str(busy)]):
        wait_until(work.empty, 90, f"{forks} workers")
    work.exactly_once(tasks)
    assert len({fields[4] for fields in work.noted("start")}) == forks  # each in its own process
    assert scene.log().count(": hello from ") == forks
    assert scene.log().count("last resort") == forks
    assert "killing" not in scene.log()
    assert "WARNING" not in scene.log()


@pytest.mark.case("P-47")
def test_p47_an_app_that_starts_threads_at_import(scene: Scene) -> None:
    """It is imported by each worker for itself: its threads live, and what it remembers is its own."""
    work = scene.work
    work.conn.execute(habits.SEEN)
    work.add("asks_its_thread", 12, seconds=0.1)
    with scene.fleet(app=HABITS, procs=4) as fleet:
        workers = set(fleets.wait_registered(work, 4).values())
        wait_until(work.empty)
        # The parent has imported nothing of it: it has no thread but its own.
        assert len(os.listdir(f"/proc/{fleet.pid}/task")) == 1
    found = seen(work)
    assert len(found) == 12
    assert all(each["answer"] == 1 for each in found)
    assert all(each["imported"] == each["pid"] for each in found)
    assert {each["pid"] for each in found} <= workers


@pytest.mark.case("P-70")
def test_p70_no_two_workers_draw_the_same(scene: Scene) -> None:
    """Neither handlers nor the workers' own jitter and identities repeat from one fork to the next."""
    work = scene.work
    work.conn.execute(habits.SEEN)
    work.add("draws", 40, seconds=0.05)
    with scene.fleet(app=HABITS, procs=8):
        fleets.wait_registered(work, 8)
        wait_until(work.empty)
        ids = [row[0] for row in work.conn.execute("select worker_id from runner.worker")]
        assert len(set(ids)) == len(ids) >= 8
    drawn = [number for each in seen(work) for number in each["drawn"]]  # type: ignore[attr-defined]
    assert len({each["pid"] for each in seen(work)}) >= 4
    assert len(set(drawn)) == len(drawn) == 80


@pytest.mark.case("P-70")
def test_p70_identities_and_jitter_after_a_fork(tmp_path: Path) -> None:
    """Eight forks of one parent that has used both before: 1,000 identities and 1,000 delays each."""
    import random

    from runner.supervisor import role, spawn

    random.seed(7)
    before = [random.random() for _ in range(10)]
    assert len(set(before)) == 10

    def main(seat: object, ends: object) -> int:
        rng = random.Random()
        lines = [f"{uuid4()} {rng.random()} {random.random()}" for _ in range(1000)]
        (tmp_path / f"drawn.{os.getpid()}").write_text("\n".join(lines))
        return 0

    events, log = os.pipe(), os.pipe()
    one = role.Role("drawer", main)
    children = [
        spawn.spawn(one, Seat(one.name, slot, slot + 1), events[1], log[1]) for slot in range(8)
    ]
    try:
        for child in children:
            assert os.waitpid(child.pid, 0)[1] == 0
    finally:
        for child in children:
            for fd in (child.control, child.life, child.output, child.tokens):
                if fd >= 0:
                    os.close(fd)
        for fd in (*events, *log):
            os.close(fd)
    words = [
        line.split() for path in tmp_path.glob("drawn.*") for line in path.read_text().splitlines()
    ]
    assert len(words) == 8000
    for column in range(3):
        assert len({each[column] for each in words}) == 8000


# -- as process 1 -----------------------------------------------------------------------------------


@pytest.mark.case("P-48")
def test_p48_as_process_1(scene: Scene) -> None:
    """Strangers that come to it are collected quietly, whatever they ended with."""
    fleets.need_process_1()
    work = scene.work
    tasks = work.add("abandons", 8)
    with scene.fleet(app=HABITS, procs=2, under=fleets.AS_PROCESS_1, ends=0) as fleet:
        wait_until(work.empty, 20)
        workers = fleets.wait_registered(work, 2)
        (parent,) = kernel.children_of(fleet.pid)
        assert Path(f"/proc/{parent}/status").read_text().split("NSpid:")[1].split()[1] == "1"
        # One more stranger, that nobody inside has ever started.
        inside = ["nsenter", "-t", str(parent), "-p", "sh", "-c", "(sleep 0.3; exit 3) & exit 0"]
        subprocess.run(inside, check=True)
        wait_until(lambda: has_child(parent, "sh"), 30, "the stranger has come")
        wait_until(lambda: not has_child(parent, "sh"), 10, "the stranger has gone")
        wait_until(lambda: not zombies_of(parent), 10, "no zombie")
        later = work.add("ordinary", 4)
        wait_until(work.empty, 20)
        assert fleets.wait_registered(work, 2) == workers
        os.kill(parent, signal.SIGTERM)
    work.exactly_once([*tasks, *later])
    assert "WARNING" not in scene.log()


def has_child(pid: int, name: str) -> bool:
    """Whether a program of this name is a child of that process."""
    names = [Path(f"/proc/{child}/comm") for child in kernel.children_of(pid)]
    return any(path.exists() and path.read_text().strip() == name for path in names)
