"""Workers replaced without a gap: by size, by count, and for new code."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests import fleets
from tests.fleets import Work, running, wait_registered, work
from tests.logins import another_worker
from tests.servers import gone, wait_until

pytestmark = [pytest.mark.db, pytest.mark.process]

APP = """
import os, time
import runner
tasks = runner.Registry()

@tasks.task
def which(tx, task):
    time.sleep(task.params.get("seconds", 0))
    tx.execute("insert into effect (task_id, attempt) values (%s, %s)", [task.id, VERSION])
"""


@contextmanager
def fewest_workers(url: str) -> Iterator[list[int]]:
    """Counts living workers with a row all the time; the fewest that there were, in the end."""
    over = threading.Event()
    found: list[int] = []

    def watch() -> None:
        with psycopg.connect(url, autocommit=True) as conn:
            while not over.is_set():
                rows = conn.execute(
                    "select pid from runner.worker where role = 'worker'"
                ).fetchall()
                found.append(sum(not gone(pid) for (pid,) in rows))
                time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


@pytest.mark.full
def test_a_leaking_handler_costs_processes_and_nothing_else(fresh: str, tmp_path: Path) -> None:
    """Twenty workers are replaced for their size; no task is lost or charged, nobody is missed."""
    with work(fresh, tmp_path) as queue:
        with running(fresh, tmp_path, "--max-memory-per-child", "70MB", procs=3) as fleet:
            wait_registered(queue, 3)
            tasks = []
            with fewest_workers(fresh) as counts:
                while fleet.log().count("is replaced: it has grown to") < 20:
                    tasks += queue.add("leaks", 10)
                    wait_until(lambda: queue.states()["ready"] < 5, 60, "worked off")
                wait_until(queue.empty, 60, "all done")
            assert "worker_died" not in fleet.log()
            assert fleet.stop() == 0
        queue.exactly_once(tasks)
        attempts = queue.conn.execute("select max(attempt) from effect").fetchone()
        assert attempts == (1,)
        assert min(counts) >= 3 - 1
        assert max(counts) <= 3 + 1


def test_a_limit_below_what_a_worker_needs_is_said_and_replaces_nobody_at_rest(
    fresh: str, tmp_path: Path
) -> None:
    options = ("--max-memory-per-child", "5MB", "--log-format", "json")
    with work(fresh, tmp_path) as queue, running(fresh, tmp_path, *options, procs=1) as fleet:
        (pid,) = wait_registered(queue, 1).values()
        wait_until(lambda: '"memory_limit"' in fleet.log(), 20, "said")
        tasks = queue.add("ordinary", 1)
        wait_until(queue.empty, 20, "done")
        wait_until(lambda: '"replaced"' in fleet.log() and gone(pid), 20, "followed after it")
        assert fleet.stop() == 0
        assert fleet.log().count('"replaced"') == 1
        queue.exactly_once(tasks)


def test_one_task_a_process(fresh: str, tmp_path: Path) -> None:
    """With --max-tasks-per-child 1 no two tasks share a process, however short they are."""
    with work(fresh, tmp_path) as queue:
        tasks = queue.add("counted", 12)
        with running(fresh, tmp_path, "--max-tasks-per-child", "1", procs=2) as fleet:
            wait_until(queue.empty, 60, "all done")
            assert fleet.stop() == 0
        pids = Counter(pid for _, _, _, _, pid, _ in queue.noted("start"))
        assert (len(pids), max(pids.values())) == (len(tasks), 1)


def test_a_drain_that_counts_tasks_counts_those_of_heirs(fresh: str, tmp_path: Path) -> None:
    with work(fresh, tmp_path) as queue:
        queue.add("counted", 20)
        options = ("--max-tasks", "9", "--max-tasks-per-child", "2")
        with running(fresh, tmp_path, *options, verb="drain", procs=2) as fleet:
            assert fleet.process.wait(60) == 0
        assert len(queue.noted("start")) == 9
        assert queue.states() == {"ready": 11}


def test_a_drain_waits_for_the_last_task_of_who_is_followed(fresh: str, tmp_path: Path) -> None:
    with work(fresh, tmp_path) as queue:
        tasks = queue.add("sleepy", 1, seconds=5)
        options = ("--max-tasks-per-child", "1", "--json")
        with running(fresh, tmp_path, *options, verb="drain", procs=1) as fleet:
            assert fleet.process.wait(60) == 0
        queue.exactly_once(tasks)


def test_who_can_work_no_more_leaves_where_its_heir_finds_no_connection(
    fresh: str, tmp_path: Path
) -> None:
    """A server that is full: who leaves makes the room. Else nobody would ever work again."""
    with work(fresh, tmp_path) as queue, another_worker(fresh) as login:
        options = ("--max-tasks-per-child", "1")
        with running(login.url, tmp_path, *options, procs=2) as fleet:
            wait_registered(queue, 2)
            login.limit()
            tasks = queue.add("counted", 6)
            wait_until(queue.empty, 90, "all done")
            assert "finds no connection; worker " in fleet.log()
            assert fleet.stop() == 0
        assert len(queue.noted("start")) == len(tasks)


# -- new code -------------------------------------------------------------------------------------


def deploy(directory: Path, version: int, more: str = "") -> None:
    """Put a version of the app in place, as a whole."""
    new = directory / f"changing.{version}"
    new.write_text(APP.replace("VERSION", str(version)) + more)
    os.utime(new, (version, version))  # seconds decide whether compiled code is old
    new.rename(directory / "changing.py")


@contextmanager
def changing(queue: Work, url: str) -> Iterator[fleets.Fleet]:
    directory = queue.directory
    deploy(directory, 1)
    with running(
        url, directory, "-v", "--app-dir", str(directory), app="changing", procs=3
    ) as fleet:
        wait_registered(queue, 3)
        yield fleet


def test_a_hangup_brings_new_code_and_disturbs_nobody(fresh: str, tmp_path: Path) -> None:
    with work(fresh, tmp_path) as queue, changing(queue, fresh) as fleet:
        before = set(queue.workers().values())
        tasks = queue.add("which", 6, seconds=1)
        wait_until(lambda: queue.running() >= 3, why="they run")
        deploy(tmp_path, 2)
        with fewest_workers(fresh) as counts:
            fleet.process.send_signal(signal.SIGHUP)
            while "every worker runs the new code" not in fleet.log():
                tasks += queue.add("which", 1)
                wait_until(lambda: queue.states()["ready"] == 0, 30, "begun")
        newer = queue.add("which", 20)
        wait_until(queue.empty, 30, "all done")
        assert min(counts) >= 3
        assert not before & set(queue.workers().values())
        assert fleet.stop() == 0
        queue.exactly_once(tasks + newer)
        versions = dict(queue.conn.execute("select task_id, attempt from effect").fetchall())
        assert {versions[task] for task in tasks} == {1, 2}
        assert {versions[task] for task in newer} == {2}


def test_new_code_that_does_not_load_changes_nothing(fresh: str, tmp_path: Path) -> None:
    with work(fresh, tmp_path) as queue, changing(queue, fresh) as fleet:
        before = queue.workers()
        deploy(tmp_path, 2, more="\nimport nowhere_to_be_found\n")
        fleet.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "reload failed" in fleet.log(), 20, "told")
        assert "nowhere_to_be_found" in fleet.log()
        tasks = queue.add("which", 10)
        wait_until(queue.empty, 20, "done by the old")
        queue.exactly_once(tasks)
        assert queue.workers() == before
        deploy(tmp_path, 3)
        fleet.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "every worker runs the new code" in fleet.log(), 30, "reloaded")
        assert fleet.stop() == 0


@pytest.mark.full
def test_a_worker_that_dies_after_a_bad_deploy_does_not_end_the_fleet(
    fresh: str, tmp_path: Path
) -> None:
    """Its place stays empty until the code is right again; the others work on."""
    with work(fresh, tmp_path) as queue, changing(queue, fresh) as fleet:
        deploy(tmp_path, 2, more="\nimport nowhere_to_be_found\n")
        victim = queue.workers()[0]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: fleet.log().count("worker 0 is process") > 6, 30, "tried in vain")
        tasks = queue.add("which", 10)
        wait_until(queue.empty, 20, "done by the others")
        deploy(tmp_path, 3)
        wait_until(lambda: victim != queue.workers().get(0, victim), 30, "there again")
        assert fleet.stop() == 0
        queue.exactly_once(tasks)
