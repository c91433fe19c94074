"""Rates without a history: what the parent counts, against what is known to have happened."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from runner.store import tallies
from tests.commands import run
from tests.fleets import Work, running, wait_registered, work
from tests.servers import wait_until

pytestmark = [pytest.mark.db, pytest.mark.process]


def totals(queue: Work) -> dict[str, dict[str, Any]]:
    return {one["type"]: one for one in tallies.totals(queue.conn)}


def test_every_end_is_counted_once(fresh: str, tmp_path: Path) -> None:
    """Grouped deletions, groups, effects, failures and deaths; all of it is there at the end."""
    with work(fresh, tmp_path) as queue:
        queue.add("noop", 500)
        queue.add("ordinary", 100)
        queue.add("grouped", 100)
        queue.add("boom", 5)
        queue.add("selfkill", 2)
        queue.add("hang", 1)
        with running(fresh, tmp_path) as fleet:
            wait_until(queue.only_dead, 30, "all done or dead")
            assert fleet.stop() == 0
        found = totals(queue)
        ends = ("done", "failed", "dead")
        assert {name: tuple(one[end] for end in ends) for name, one in found.items()} == {
            "noop": (500, 0, 0),
            "ordinary": (100, 0, 0),
            "grouped": (100, 0, 0),
            "boom": (0, 15, 5),
            "selfkill": (0, 6, 2),
            "hang": (0, 2, 1),
        }
        for one in found.values():
            assert sum(one["durations"]) == one["done"] + one["failed"]
        assert found["hang"]["seconds"] >= 2.0
        assert found["noop"]["seconds"] < 100


def test_a_short_drain_is_counted_too(fresh: str, tmp_path: Path) -> None:
    with work(fresh, tmp_path) as queue:
        queue.add("noop", 20)
        with running(fresh, tmp_path, verb="drain") as fleet:
            assert fleet.process.wait(20) == 0
        assert totals(queue)["noop"]["done"] == 20


def test_a_lease_that_was_lost_is_counted(fresh: str, tmp_path: Path) -> None:
    with work(fresh, tmp_path) as queue, running(fresh, tmp_path, procs=1) as fleet:
        (pid,) = wait_registered(queue, 1).values()
        queue.add("sleepy", seconds=1000)
        wait_until(lambda: queue.noted("start"), why="its handler has begun")
        os.kill(pid, signal.SIGSTOP)  # not renewed while it stands
        wait_until(lambda: totals(queue).get("sleepy", {}).get("lost"), 30, "lost is counted")
        queue.conn.execute("delete from runner.task")
        assert fleet.stop() == 0
        found = totals(queue)["sleepy"]
        assert [found[end] for end in ("lost", "released", "failed", "done")] == [1, 0, 0, 0]


def test_status_tells_rates_while_a_fleet_works(fresh: str, tmp_path: Path) -> None:
    with work(fresh, tmp_path) as queue:
        queue.add("sleepy", 40, seconds=0.1)
        queue.add("boom", 2)
        with running(fresh, tmp_path, procs=2) as fleet:
            wait_until(queue.only_dead, 30, "all done or dead")
            wait_until(lambda: totals(queue).get("sleepy", {}).get("done") == 40, 10, "counted")
            seen = json.loads(run("status", "--json", url=fresh).stdout)
            assert fleet.stop() == 0
        assert seen["done_per_second"] > 0.5
        assert seen["failed_per_second"] > 0
        (sleepy,) = (one for one in seen["types"] if one["name"] == "sleepy")
        assert sleepy["done_per_second"] == seen["done_per_second"]
        assert 0.08 < sleepy["p50_seconds"] <= sleepy["p95_seconds"]


def test_where_counts_cannot_be_written_everything_else_goes_on(fresh: str, tmp_path: Path) -> None:
    """As after an upgrade whose rights were not granted: it is told once, and passes are made."""
    with work(fresh, tmp_path) as queue, running(fresh, tmp_path, procs=1) as fleet:
        wait_registered(queue, 1)
        queue.conn.execute("alter table runner.tally rename to hidden")
        queue.add("noop", 3)
        wait_until(lambda: "counts cannot be written" in fleet.log(), 30, "told")
        queue.conn.execute(
            "insert into runner.task (task_type, run_at) values ('noop', now() + interval '1 second')"
        )
        wait_until(queue.empty, 30, "promoted and done")
        queue.conn.execute("alter table runner.hidden rename to tally")
        wait_until(lambda: totals(queue).get("noop", {}).get("done") == 4, 30, "made up for")
        assert fleet.log().count("counts cannot be written") == 1
        assert fleet.stop() == 0


def test_what_a_dead_maintainer_has_not_read_is_counted(fresh: str, tmp_path: Path) -> None:
    with (
        work(fresh, tmp_path) as queue,
        running(fresh, tmp_path, "-v", "--poll", "100ms", procs=1) as fleet,
    ):
        wait_registered(queue, 1)
        queue.add("noop", 1)
        wait_until(lambda: totals(queue).get("noop", {}).get("done") == 1, 10, "counted")
        (pid,) = re.findall(r"maintainer is process (\d+)", fleet.log())
        os.kill(int(pid), signal.SIGSTOP)
        queue.add("noop", 10)
        wait_until(queue.empty, 60, "done")
        os.kill(int(pid), signal.SIGKILL)
        wait_until(lambda: totals(queue)["noop"]["done"] == 11, 20, "counted by the next one")
        assert fleet.stop() == 0
