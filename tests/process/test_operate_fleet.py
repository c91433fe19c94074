"""What a real fleet does about what people do to its tasks."""

import json
from pathlib import Path

import pytest

from tests import fleets
from tests.commands import run
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
GONE = "done, or never committed (completed tasks are deleted)"


def test_cancel_of_a_running_task_kills_its_worker(fresh: str, tmp_path: Path) -> None:
    with fleets.work(fresh, tmp_path) as work, fleets.running(fresh, tmp_path, procs=2):
        before = fleets.wait_registered(work, 2)
        (task,) = work.add("slow", seconds=60)
        wait_until(lambda: work.noted("start"), why="it runs")
        pid = int(work.noted("start")[0][4])
        result = run("cancel", str(task), url=fresh, cwd=tmp_path)
        assert result.returncode == 0, result
        assert "was running: its worker is killed" in result.stderr
        wait_until(lambda: fleets.all_gone([pid]), 30, "its worker is killed")
        wait_until(lambda: len(set(work.workers().values()) - {pid}) == 2, why="and replaced")
        assert set(work.workers().values()) & set(before.values())
        others = work.add("ordinary", 4)
        wait_until(work.empty, why="the others are done")
        work.exactly_once(others)
        assert "cancelled by" in run("show", str(task), url=fresh, cwd=tmp_path).stdout


def test_resume_and_requeue_wake_idle_workers(fresh: str, tmp_path: Path) -> None:
    """Without the notice it would take the poll, here a minute."""
    with (
        fleets.work(fresh, tmp_path) as work,
        fleets.running(fresh, tmp_path, "--poll", "60s", procs=2),
    ):
        fleets.wait_registered(work, 2)
        run("pause", "default", url=fresh)
        tasks = work.add("ordinary", 2)
        idle = "select count(*) from runner.runner where idle"
        wait_until(lambda: work.conn.execute(idle).fetchone() == (1,), why="they idle")
        assert work.states() == {"ready": 2}
        told = run("explain", str(tasks[0]), url=fresh).stdout
        assert "its queue default is paused" in told
        run("resume", "default", url=fresh)
        wait_until(work.empty, 30, "claimed after the resume")
        work.conn.execute("insert into runner.task (task_type, state) values ('ordinary', 'dead')")
        assert run("dead", "requeue", "--all", url=fresh).returncode == 0
        wait_until(work.empty, 30, "claimed after the requeue")


def test_explain_of_a_live_fleet(fresh: str, tmp_path: Path) -> None:
    """Running, busy, unknown, dead: what it says is what the fleet does."""
    with fleets.work(fresh, tmp_path) as work, fleets.running(fresh, tmp_path, procs=1):
        fleets.wait_registered(work, 1)
        (slow,) = work.add("slow", seconds=3)
        wait_until(lambda: work.noted("start"), why="it runs")
        (waiting,) = work.add("ordinary")
        (unknown,) = work.add("later")
        pid = work.noted("start")[0][4]

        def said(task: int) -> str:
            return run("explain", str(task), url=fresh).stdout

        assert f"task {slow} is running: attempt 1 of 5 by pid {pid} on " in said(slow)
        assert "the one worker that could take it is busy" in said(waiting)
        assert "no worker alive has a handler for its type later" in said(unknown)
        (boom,) = work.add("boom")
        wait_until(lambda: work.states() == {"ready": 1, "dead": 1}, 20, "done, or dead")
        assert "is dead after 3 of 3 attempts: the last one failed: ValueError: boom" in said(boom)
        assert GONE in said(waiting)
        todo = run("todo", "--json", url=fresh, cwd=tmp_path).stdout.splitlines()
        assert [json.loads(line)["kind"] for line in todo] == ["unknown", "dead"]
