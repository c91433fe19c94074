"""Cases about the end of a drain."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.aftermath import Scene
from tests.commands import run

pytestmark = [pytest.mark.process, pytest.mark.db]
TRY = ("-A", "tests.apps.trouble", "--procs", "2", "--fail-on", "never", "--json")
ROOT = str(Path(__file__).parent.parent.parent)
EXPIRED = """
    with gone as (
        insert into runner.worker (worker_id, runner_id, role, host, pid, lease, lease_until)
        values (gen_random_uuid(), gen_random_uuid(), 'worker', 'gone', 1, '3 s',
                now() - %s::interval)
        returning worker_id)
    update runner.task set state = 'running', attempt = 1, max_attempts = 5, fence = 1,
        claimed_at = now(), lease_owner = (select worker_id from gone)"""


def drain(scene: Scene, *options: str) -> dict[str, Any]:
    """Run a drain to its end; its one-line summary."""
    result = run(
        "drain",
        *TRY,
        *options,
        url=scene.work.url,
        cwd=scene.work.directory,
        PYTHONPATH=ROOT,
        CHORES_DIR=str(scene.work.directory),
    )
    assert result.returncode == 0, result.stderr
    (line,) = result.stdout.splitlines()
    told: dict[str, Any] = json.loads(line)
    return told


@pytest.mark.case("P-32")
def test_p32_an_empty_queue(scene: Scene) -> None:
    told = drain(scene)
    assert (told["reason"], told["ok"], told["left"]) == ("empty", 0, 0)


@pytest.mark.case("P-32")
def test_p32_the_future_and_a_backoff_hold_nothing_up(scene: Scene) -> None:
    """What is not due is counted as scheduled; a task fails at most once in a drain."""
    work = scene.work
    later = """insert into runner.task (task_type, run_at)
               select 'ordinary', now() + interval '1 hour' from generate_series(1, 3)"""
    work.conn.execute(later)
    told = drain(scene)
    assert (told["reason"], told["ok"], told["scheduled"]) == ("empty", 0, 3)
    work.add("boom")
    told = drain(scene, "--backoff", "10ms:10ms")
    assert (told["reason"], told["retried"], told["dead"]) == ("drained", 1, 0)
    assert told["scheduled"] == 4
    (attempt,) = work.conn.execute("select attempt from runner.task where attempt > 0").fetchall()
    assert attempt == (1,)


@pytest.mark.case("P-32")
def test_p32_tasks_that_make_more(scene: Scene) -> None:
    """In-flight work may enqueue: the end is when nothing runs and nothing is runnable. What feeds
    itself for ever is bounded by --max-time, and by --max-tasks, exactly."""
    work = scene.work
    work.add("family", depth=6, width=2)
    told = drain(scene)
    assert (told["reason"], told["ok"], told["left"]) == ("drained", 127, 0)
    work.add("for_ever")
    told = drain(scene, "--max-tasks", "20")
    assert (told["reason"], told["ok"], told["left"]) == ("max-tasks", 20, 1)
    told = drain(scene, "--max-time", "1s")
    assert told["reason"] == "max-time"
    assert told["ok"] > 0
    assert told["left"] == 1
    assert sum(work.effects().values()) == 127 + 20 + told["ok"]


@pytest.mark.case("P-32")
def test_p32_what_a_dead_runner_holds(scene: Scene) -> None:
    """A lease that ended more than its length ago is taken by the first look, its tasks are given back
    with a backoff, and the next drain does them. One that has only just ended may be anybody's slow
    renewal, and is left."""
    work = scene.work
    tasks = work.add("ordinary", 5)
    work.conn.execute(EXPIRED, ["1 s"])
    told = drain(scene)
    assert (told["reason"], told["ok"]) == ("empty", 0)
    assert work.states() == {"running": 5}
    work.conn.execute("update runner.worker set lease_until = now() - interval '10 s'")
    told = drain(scene, "--backoff", "600s")
    assert (told["ok"], told["left"], told["scheduled"]) == (0, 0, 5)
    assert work.states() == {"scheduled": 5}
    work.conn.execute("update runner.task set run_at = now()")
    told = drain(scene)
    assert (told["reason"], told["ok"], told["left"]) == ("drained", 5, 0)
    work.exactly_once(tasks)
