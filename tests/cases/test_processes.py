"""Cases about what a process inherits, keeps and leaves: P-39, P-45, P-46, P-47, P-48, P-59, P-70."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from uuid import uuid4

import pytest

from runner import kernel
from tests import fleets, servers
from tests.apps import habits
from tests.servers import wait_until

pytestmark = [pytest.mark.db, pytest.mark.process]
HABITS = ("-A", "tests.apps.habits")


def seen(work: fleets.Work) -> list[dict[str, object]]:
    """What handlers wrote down."""
    return [row[0] for row in work.conn.execute("select what from seen").fetchall()]


# -- between two tasks ------------------------------------------------------------------------------


@pytest.mark.case("P-39")
def test_p39_a_handler_with_processes_of_its_own(fresh: str, tmp_path: Path) -> None:
    """A pool works; one that hangs is killed at the time limit, and leaves no process."""
    with fleets.work(fresh, tmp_path) as work:
        work.conn.execute(habits.SEEN)
        (good,) = work.add("pools")
        with fleets.running(fresh, tmp_path, *HABITS, "--timeout", "1500ms", procs=1) as fleet:
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
            assert fleet.stop() == 0
        work.exactly_once([good])


@pytest.mark.case("P-45")
def test_p45_signals_that_a_handler_has_changed(fresh: str, tmp_path: Path) -> None:
    """The next task in the same worker, and what it starts, have them as they should be."""
    with fleets.work(fresh, tmp_path) as work:
        work.conn.execute(habits.SEEN)
        with fleets.running(fresh, tmp_path, *HABITS, procs=1) as fleet:
            (pid,) = fleets.wait_registered(work, 1).values()
            ids = []
            for how in ("ignores", "blocks", "alarm"):
                ids += work.add("deaf", how=how)
                wait_until(work.empty)
                ids += work.add("hears", seconds=1.2 if how == "alarm" else 0)
                wait_until(work.empty)
            assert list(fleets.wait_registered(work, 1).values()) == [pid]
            assert seen(work) == [{"blocked": 0, "ignored": False, "program": "[True, True]"}] * 3
            work.exactly_once(ids)
            # And TERM still reaches the handler after those: it is released within the grace.
            (last,) = work.add("sleepy", seconds=60)
            wait_until(lambda: work.noted("start"))
            began = time.monotonic()
            assert fleet.stop() == 0
            assert time.monotonic() - began < 3 + 5  # --grace, and what a stop takes
        row = work.row(last)
        assert row is not None
        assert (row["state"], row["attempt"], row["released"]) == ("ready", 0, 1)
        assert "Traceback" not in fleet.log()


@pytest.mark.case("P-59")
def test_p59_a_changed_working_directory(fresh: str, tmp_path: Path) -> None:
    """The next task is where the worker was started, though the place of the last one is no more."""
    (tmp_path / "landmark").write_text("here")
    with fleets.work(fresh, tmp_path) as work:
        work.conn.execute(habits.SEEN)
        with fleets.running(fresh, tmp_path, *HABITS, procs=1) as fleet:
            (pid,) = fleets.wait_registered(work, 1).values()
            (task,) = work.add("wanders")
            wait_until(work.empty)
            work.add("looks_around")
            wait_until(work.empty)
            assert list(fleets.wait_registered(work, 1).values()) == [pid]
            assert fleet.stop() == 0
        work.exactly_once([task])
        assert seen(work) == [{"cwd": str(tmp_path), "landmark": "here"}]


# -- at the fork ------------------------------------------------------------------------------------

# A parent with a thread that never lets go of the locks of logging and of its stream for long.
BUSY_PARENT = """
import logging, sys, threading
logging.basicConfig(stream=open("parent.log", "w"), level="INFO")

def chatter():
    while True:
        logging.getLogger("busy").info("x" * 200)

threading.Thread(target=chatter, daemon=True).start()
from runner.cli import main
main()
"""


@pytest.mark.case("P-46")
@pytest.mark.parametrize("forks", [60, pytest.param(300, marks=pytest.mark.full)])
def test_p46_locks_held_at_the_moment_of_the_fork(fresh: str, tmp_path: Path, forks: int) -> None:
    """Every worker forked beside a thread that is always logging gets ready and logs itself."""
    (tmp_path / "busy.py").write_text(BUSY_PARENT)
    with fleets.work(fresh, tmp_path) as work:
        tasks = work.add("logs", forks)
        command = [sys.executable, "-W", "ignore", "busy.py", "start", "--procs", "4", "-A"]
        command += ["tests.apps.habits", "--app-dir", str(fleets.ROOT), *fleets.QUICK]
        command += ["--max-tasks-per-child", "1", "--log-format", "json", "--boot-timeout", "20s"]
        env = fleets.environment(tmp_path, DATABASE_URL=fresh)
        with (tmp_path / "log.json").open("wb") as log:
            parent = subprocess.Popen(
                command, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            wait_until(work.empty, 100, f"{forks} workers")
        finally:
            parent.terminate()
            code = parent.wait(20)
        text = (tmp_path / "log.json").read_text()
        assert code == 0, text[-2000:]
        work.exactly_once(tasks)
        assert len({fields[4] for fields in work.noted("start")}) == forks  # each in its own process
        assert text.count('"hello from ') == forks
        assert "killing" not in text
        assert "WARNING" not in text.upper()


@pytest.mark.case("P-47")
def test_p47_an_app_that_starts_threads_at_import(fresh: str, tmp_path: Path) -> None:
    """It is imported by each worker for itself: its threads live, and what it remembers is its own."""
    with fleets.work(fresh, tmp_path) as work:
        work.conn.execute(habits.SEEN)
        work.add("asks_its_thread", 12, seconds=0.1)
        with fleets.running(fresh, tmp_path, *HABITS, procs=4) as fleet:
            workers = set(fleets.wait_registered(work, 4).values())
            wait_until(work.empty)
            # The parent has imported nothing of it: it has no thread but its own.
            assert len(os.listdir(f"/proc/{fleet.pid}/task")) == 1
            assert fleet.stop() == 0
        found = seen(work)
        assert len(found) == 12
        assert all(each["answer"] == 1 for each in found)
        assert all(each["imported"] == each["pid"] for each in found)
        assert {each["pid"] for each in found} <= workers


@pytest.mark.case("P-70")
def test_p70_no_two_workers_draw_the_same(fresh: str, tmp_path: Path) -> None:
    """Neither handlers nor the workers' own jitter and identities repeat from one fork to the next."""
    with fleets.work(fresh, tmp_path) as work:
        work.conn.execute(habits.SEEN)
        work.add("draws", 40, seconds=0.05)
        with fleets.running(fresh, tmp_path, *HABITS, procs=8) as fleet:
            fleets.wait_registered(work, 8)
            wait_until(work.empty)
            ids = [row[0] for row in work.conn.execute("select worker_id from runner.worker")]
            assert len(set(ids)) == len(ids) >= 8
            assert fleet.stop() == 0
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
    children = [spawn.spawn(one, slot, slot + 1, events[1], log[1]) for slot in range(8)]
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
    words = [line.split() for path in tmp_path.glob("drawn.*") for line in path.open()]
    assert len(words) == 8000
    for column in range(3):
        assert len({each[column] for each in words}) == 8000


# -- as process 1 -----------------------------------------------------------------------------------


@pytest.mark.case("P-48")
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root, unshare")
def test_p48_as_process_1(fresh: str, tmp_path: Path) -> None:
    """Strangers that come to it are collected quietly, whatever they ended with."""
    with fleets.work(fresh, tmp_path) as work:
        tasks = work.add("abandons", 8)
        with as_process_1(fresh, tmp_path) as fleet:
            wait_until(work.empty, 20)
            workers = fleets.wait_registered(work, 2)
            inside = parent_inside(fleet.pid)
            # One more stranger, which nobody inside has ever known.
            subprocess.run(
                ["nsenter", "-t", str(inside), "-p", "sh", "-c", "(sleep 0.3; exit 3) & exit 0"],
                check=True,
            )
            wait_until(lambda: not zombies_below(inside), 10, "no zombie")
            time.sleep(1)
            assert fleets.wait_registered(work, 2) == workers
            assert servers.process_state(inside) not in ("Z", None)
            assert not zombies_below(inside)
            os.kill(inside, signal.SIGTERM)
            assert fleet.process.wait(15) == 0
        work.exactly_once(tasks)
        log = fleet.log()
        assert "worker_died" not in log
        assert "WARNING" not in log
        assert "Traceback" not in log
