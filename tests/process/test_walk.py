"""The walk that README suggests to who wants to trust this, and two things to look at on the way."""

import json
import signal
from pathlib import Path

import pytest

from tests import fleets
from tests.commands import run
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db, pytest.mark.everywhere]


def test_the_walk(fresh: str, tmp_path: Path) -> None:
    """A17: one worker, a slow success and a sure failure; Ctrl-C in the middle; start again; look."""
    with fleets.work(fresh, tmp_path) as work:
        (slow,) = work.add("slow", seconds=3)
        (doomed,) = work.add("boom")
        with fleets.running(fresh, tmp_path, "--grace", "1s", procs=1) as fleet:
            wait_until(lambda: work.noted("start"), why="the slow one is in the middle")
            assert fleet.stop(signal.SIGINT) == 0
        row = work.row(slow)
        assert row is not None
        assert (row["state"], row["attempt"], row["released"]) == ("ready", 0, 1)
        assert not work.effects()
        with fleets.running(fresh, tmp_path, procs=1):
            wait_until(lambda: work.states() == {"dead": 1}, 20, "one done, one dead")
        work.exactly_once([slow])
        row = work.row(doomed)
        assert row is not None
        assert (row["attempt"], row["max_attempts"], row["cause"]) == (3, 3, "ValueError")
    told = json.loads(run("dead", "list", "--json", url=fresh, cwd=tmp_path).stdout)
    assert (told["id"], told["cause"]) == (doomed, "ValueError")
    assert "done" in run("show", str(slow), url=fresh, cwd=tmp_path).stdout


def test_logs_tell_ids_and_errors_and_no_params(fresh: str, tmp_path: Path) -> None:
    """A11: every line is an object; what a task was given is in none of them."""
    options = ("--log-format", "json", "-v")
    with fleets.work(fresh, tmp_path) as work:
        (good,) = work.add("ordinary", password="swordfish")
        (bad,) = work.add("boom", password="swordfish")
        with fleets.running(fresh, tmp_path, *options, procs=1) as fleet:
            wait_until(work.only_dead, 20)
            assert fleet.stop() == 0
        log = fleet.log()
    assert "swordfish" not in log
    records = [json.loads(line) for line in log.splitlines()]
    assert {record["task"] for record in records if record["event"] == "done"} == {good}
    (dead,) = [record for record in records if record["event"] == "dead"]
    assert (dead["task"], dead["type"], dead["attempt"], dead["queue"]) == (
        bad,
        "boom",
        3,
        "default",
    )
    assert "boom" in dead["error"]


def test_workers_of_a_queue_serve_only_that(fresh: str, tmp_path: Path) -> None:
    """B6: one worker for `mail`, the rest for `other`, none for `third`."""
    queues = ("--queue", "mail=1", "--queue", "other")
    add = (
        "insert into runner.task (queue, task_type, params)"
        " select %s, 'slow', '{\"seconds\": 1}' from generate_series(1, %s)"
    )
    running = "select count(*) from runner.task where state = 'running' and queue = 'mail'"
    with fleets.work(fresh, tmp_path) as work:
        for queue, count in (("mail", 3), ("other", 2), ("third", 1)):
            work.conn.execute(add, [queue, count])
        most = 0

        def only_the_third_is_left() -> bool:
            nonlocal most
            row = work.conn.execute(running).fetchone()
            most = max(most, row[0] if row else 0)
            left = work.conn.execute("select distinct queue from runner.task").fetchall()
            return left == [("third",)]

        with fleets.running(fresh, tmp_path, *queues, procs=3):
            wait_until(only_the_third_is_left, 20)
            status = json.loads(run("status", "--json", url=fresh, cwd=tmp_path).stdout)
        assert most == 1
        assert [row["name"] for row in status["queues"] if row["ready"]] == ["third"]


def test_unknown_types_are_told_and_wait(fresh: str, tmp_path: Path) -> None:
    """C5: no attempt is spent on them; an app that knows them does them."""
    with fleets.work(fresh, tmp_path) as work:
        (task,) = work.add("not_there")
        with fleets.running(fresh, tmp_path, procs=1) as fleet:
            line = "task type not implemented: not_there"
            wait_until(lambda: line in fleet.log(), 20, "it is told")
            (known,) = work.add("ordinary")
            wait_until(lambda: work.effects()[known] == 1)
        row = work.row(task)
        assert row is not None
        assert (row["state"], row["attempt"], row["fence"]) == ("ready", 0, 0)


def test_without_listen_it_polls(fresh: str, tmp_path: Path) -> None:
    """B8: as behind a pooler that does not pass NOTIFY on."""
    listening = "select count(*) from pg_stat_activity where query ilike 'listen%'"
    with (
        fleets.work(fresh, tmp_path) as work,
        fleets.running(fresh, tmp_path, "--no-listen", procs=1),
    ):
        fleets.wait_registered(work, 1)
        for _ in range(2):
            (task,) = work.add("ordinary")
            wait_until(lambda task=task: work.effects()[task] == 1, 10)  # type: ignore[misc]
        assert work.conn.execute(listening).fetchone() == (0,)
