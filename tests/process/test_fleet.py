"""A fleet at its ordinary work, and at what handlers do to it."""

import os
from pathlib import Path

import pytest

from tests import fleets, servers
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
FULL = bool(os.environ.get("RUNNER_TEST_FULL"))


def test_good_raising_killing_and_hanging_tasks(fresh: str, tmp_path: Path) -> None:
    """Every good one has one effect; the others are dead after their attempts, with their cause."""
    scale = 10 if FULL else 1
    with fleets.work(fresh, tmp_path) as work:
        good = work.add("ordinary", 177 * scale)
        work.add("boom", 20 * scale)
        work.add("selfkill", 2 * scale)
        work.add("hang", 2)
        with fleets.running(fresh, tmp_path, procs=8) as fleet:
            wait_until(work.only_dead, 90, "all done or dead")
            assert work.causes() == {
                ("boom", "ValueError", 3): 20 * scale,
                ("selfkill", "SIGKILL (perhaps out of memory)", 3): 2 * scale,
                ("hang", "time limit", 2): 2,
            }
            work.exactly_once(good)
            workers = fleets.wait_registered(work, 8)
            assert len(workers) == 8
            assert {servers.process_state(pid) for pid in workers.values()} <= {"S", "R", "D"}
            assert fleet.stop() == 0
        assert "Traceback" not in fleet.log()


def test_outcomes(fresh: str, tmp_path: Path) -> None:
    """Retry is a failure with a delay of its own, Snooze refunds, Discard is the end."""
    with fleets.work(fresh, tmp_path) as work:
        (retry,) = work.add("chooses", how="retry")
        (snooze,) = work.add("chooses", how="snooze", delay=600)
        (discard,) = work.add("chooses", how="discard")
        with fleets.running(fresh, tmp_path, procs=1):
            wait_until(lambda: work.states()["dead"] == 2)
            wait_until(lambda: work.states()["scheduled"] == 1)
        row = work.row(retry)
        assert row is not None
        assert (row["cause"], row["attempt"]) == ("Retry", 2)
        row = work.row(discard)
        assert row is not None
        assert (row["cause"], row["attempt"], row["last_error"]) == (
            "Discard",
            1,
            "Discard: no use",
        )
        row = work.row(snooze)
        assert row is not None
        assert (row["state"], row["attempt"], row["released"]) == ("scheduled", 0, 0)


def test_a_task_that_ignores_term_is_killed_at_its_limit(fresh: str, tmp_path: Path) -> None:
    """TERM, then five seconds, then KILL; the attempt is charged, the cause is the limit."""
    with fleets.work(fresh, tmp_path) as work:
        (task,) = work.add("stubborn")
        with fleets.running(fresh, tmp_path, "--timeout", "1s", procs=1):
            wait_until(lambda: (work.row(task) or {}).get("cause") == "time limit", 20)
        row = work.row(task)
        assert row is not None
        assert row["attempt"] == 1


def test_a_plain_insert_wakes_an_idle_worker(fresh: str, tmp_path: Path) -> None:
    """Well before the poll, which is put off here."""
    with fleets.work(fresh, tmp_path) as work:
        with fleets.running(fresh, tmp_path, "--poll", "30s", procs=2):
            fleets.wait_registered(work, 2)
            idle = "select idle from runner.runner"
            wait_until(lambda: work.conn.execute(idle).fetchone() == (True,))
            for _ in range(3):
                ids = work.add("ordinary")
                wait_until(work.empty, 5)
        assert ids


def test_output_of_handlers_names_its_task(fresh: str, tmp_path: Path) -> None:
    """P-69: what is printed comes as log lines."""
    with fleets.work(fresh, tmp_path) as work:
        (task,) = work.add("prints")
        with fleets.running(fresh, tmp_path, procs=1) as fleet:
            wait_until(lambda: "and to stderr" in fleet.log())
        assert f"task {task}: hello from {task}" in fleet.log()


def test_grace_then_release_then_one_effect(fresh: str, tmp_path: Path) -> None:
    """P-55: a stop in mid-task refunds the attempt, and the next run completes it."""
    with fleets.work(fresh, tmp_path) as work:
        (task,) = work.add("slow", seconds=6)
        with fleets.running(fresh, tmp_path, "--grace", "1s", procs=1) as fleet:
            wait_until(lambda: work.noted("start"))
            assert fleet.stop() == 0
        row = work.row(task)
        assert row is not None
        assert (row["state"], row["attempt"], row["released"]) == ("ready", 0, 1)
        with fleets.running(fresh, tmp_path, procs=1):
            wait_until(work.empty, 20)
        work.exactly_once([task])


def test_a_stop_that_comes_with_the_claim_starts_nothing(fresh: str, tmp_path: Path) -> None:
    """A7: the stop flag is looked at again after the claim's commit."""
    with fleets.work(fresh, tmp_path) as work:
        (task,) = work.add("ordinary")
        fault = {"RUNNER_FAULT": "after_claim_commit:term-parent"}
        with fleets.running(fresh, tmp_path, procs=1, **fault) as fleet:
            assert fleet.process.wait(20) == 0
        row = work.row(task)
        assert row is not None
        assert (row["state"], row["attempt"], row["released"]) == ("ready", 0, 0)
        assert row["fence"] > 0
        assert not work.noted("start")


@pytest.mark.direct
def test_connections_are_replaced_at_their_age(fresh: str, tmp_path: Path) -> None:
    """Between tasks, and with the connection the identity; the processes stay, nothing runs twice."""
    with fleets.work(fresh, tmp_path) as work:
        tasks = work.add("slow", 60, seconds=0.1)
        with fleets.running(fresh, tmp_path, "--connection-lifetime", "1s", procs=2) as fleet:
            pids = fleets.wait_registered(work, 2)
            query = "select pid from pg_stat_activity where application_name like 'runner %'"
            before = {row[0] for row in work.conn.execute(query)}
            wait_until(work.empty, 30)
            after = {row[0] for row in work.conn.execute(query)}
            assert not before & after - {os.getpid()}
            assert fleets.wait_registered(work, 2) == pids
            assert "away" not in fleet.log()
        work.exactly_once(tasks)
        assert {fields[2] for fields in work.noted("start")} == {"1"}


def test_a_worker_that_has_grown_is_replaced(fresh: str, tmp_path: Path) -> None:
    """Between tasks; none is lost or charged over it."""
    with fleets.work(fresh, tmp_path) as work:
        tasks = work.add("leaks", 40)
        with fleets.running(fresh, tmp_path, "--max-memory-per-child", "80MB", procs=2) as fleet:
            pids = set(fleets.wait_registered(work, 2).values())
            wait_until(work.empty, 40)
            assert not pids & set(fleets.wait_registered(work, 2).values())
            assert "WARNING" not in fleet.log()
        work.exactly_once(tasks)


def test_a_worker_that_has_done_enough_is_replaced(fresh: str, tmp_path: Path) -> None:
    with fleets.work(fresh, tmp_path) as work:
        tasks = work.add("ordinary", 40)
        with fleets.running(fresh, tmp_path, "--max-tasks-per-child", "5", procs=1) as fleet:
            (first,) = fleets.wait_registered(work, 1).values()
            wait_until(work.empty, 40)
            assert "WARNING" not in fleet.log()
            wait_until(lambda: first not in fleets.wait_registered(work, 1).values())
        work.exactly_once(tasks)
