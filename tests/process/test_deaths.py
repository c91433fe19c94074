"""One test for each process that can die, and for those that only stand still."""

import json
import os
import signal
import time
from pathlib import Path

import psycopg
import pytest

from tests import fleets, servers
from tests.commands import run
from tests.proxy import CutOnce, proxied
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
SHORT = ("--lease", "3s", "--renew", "500ms")


def backend(work: fleets.Work, application: str) -> int:
    """The pid of the server's process for one of our connections."""
    query = """select pid from pg_stat_activity
               where application_name = %s and datname = current_database()"""

    def find() -> int | None:
        row = work.conn.execute(query, [application]).fetchone()
        return row[0] if row else None

    return wait_until(find, 10, f"a backend of {application}")


def test_worker_killed_between_tasks_and_in_one(fresh: str, tmp_path: Path) -> None:
    """With its parent alive its task is back at once, charged, and everybody else goes on."""
    with fleets.work(fresh, tmp_path) as work:
        (task,) = work.add("sleepy", seconds=1)
        with fleets.running(fresh, tmp_path, *SHORT, procs=2):
            wait_until(lambda: work.noted("start"))
            victim = int(work.noted("start")[0][4])
            os.kill(victim, signal.SIGKILL)
            cause = wait_until(lambda: (work.row(task) or {}).get("cause"))
            assert cause.startswith("SIGKILL")  # its parent's word, not that of a sweep
            for pid in fleets.wait_registered(work, 2).values():
                os.kill(pid, signal.SIGKILL)
            wait_until(work.empty, 20)
        work.exactly_once([task])


@pytest.mark.parametrize("role", ["worker 0", "renewer"])
def test_what_a_child_died_of_is_told_even_when_quiet(
    fresh: str, tmp_path: Path, role: str
) -> None:
    point = {"worker 0": "before_claim", "renewer": "renew"}[role]
    once = {"RUNNER_FAULT": f"{point}:raise", "RUNNER_FAULT_ONCE": str(tmp_path / "once")}
    with fleets.work(fresh, tmp_path) as work:
        ids = work.add("ordinary", 10)
        with fleets.running(fresh, tmp_path, "-q", *SHORT, procs=1, **once) as fleet:
            wait_until(lambda: f"{role} ended: exit code 70" in fleet.log(), 20)
            wait_until(
                lambda: f"ERROR   {role}: FaultInjected: a test asked for this" in fleet.log(), 20
            )
            wait_until(work.empty, 20)
        work.exactly_once(ids)


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_death_of_the_parent_is_told_by_whom_it_leaves(
    fresh: str, tmp_path: Path, form: str
) -> None:
    """Once, even when quiet: a log must not just end. Nothing of the kind at an orderly end."""
    told = "has died, and its workers with it"
    with fleets.work(fresh, tmp_path) as work:
        options = ("-q", "--log-format", form)
        with fleets.running(fresh, tmp_path, *options, procs=1) as fleet:
            fleets.wait_registered(work, 1)
            assert fleet.stop() == 0
            assert told not in fleet.log()
        with fleets.running(fresh, tmp_path, *options, procs=1) as fleet:
            fleets.wait_registered(work, 1)
            os.kill(fleet.pid, signal.SIGKILL)
            wait_until(lambda: told in fleet.log())
            assert fleet.log().count(told) == 1


@pytest.mark.parametrize(
    "fault", ["renew:raise", "renew:kill", "before_settle:kill", "after_settle:kill"]
)
def test_renewer_dies(fresh: str, tmp_path: Path, fault: str) -> None:
    """Another one takes over what it had not done; nobody's lease is lost over it."""
    with fleets.work(fresh, tmp_path) as work:
        tasks = work.add("sleepy", 2, seconds=6)
        killers = work.add("selfkill", 1)
        once = {"RUNNER_FAULT": fault, "RUNNER_FAULT_ONCE": str(tmp_path / "once")}
        with fleets.running(fresh, tmp_path, procs=3, **once) as fleet:
            wait_until(work.only_dead, 40)
            assert "renewer ended" in fleet.log()
        work.exactly_once(tasks)
        assert {fields[2] for fields in work.noted("start")} == {"1"}
        assert killers


@pytest.mark.parametrize("fault", ["look:raise", "sweep:kill", "hear:raise", "look:freeze"])
def test_maintainer_dies_or_hangs(fresh: str, tmp_path: Path, fault: str) -> None:
    """P-31: it is replaced, and due tasks are promoted again."""
    with fleets.work(fresh, tmp_path) as work:
        once = {"RUNNER_FAULT": fault, "RUNNER_FAULT_ONCE": str(tmp_path / "once")}
        with fleets.running(fresh, tmp_path, procs=2, **once) as fleet:
            fleets.wait_registered(work, 2)
            idle = "select from runner.runner where idle"
            wait_until(lambda: work.conn.execute(idle).rowcount, 45, "a maintainer at work")
            work.add("ordinary")
            wait_until(lambda: (tmp_path / "once").exists(), 20, "the fault struck")
            work.conn.execute(
                "insert into runner.task (task_type, run_at)"
                " values ('ordinary', clock_timestamp() + interval '1 s')"
            )
            wait_until(work.empty, 60)
            assert "maintainer" in fleet.log()


def test_backend_of_the_renewer_stands_still(own_server: servers.Embedded, tmp_path: Path) -> None:
    """Its silence is its end; a new one connects, and the tasks go on under their leases."""
    with servers.fresh_database(own_server) as url, fleets.work(url, tmp_path) as work:
        tasks = work.add("sleepy", 2, seconds=8)
        with fleets.running(url, tmp_path, procs=2) as fleet:
            wait_until(lambda: len(work.noted("start")) == 2)
            with servers.stopped(backend(work, "runner renewer")):
                wait_until(lambda: "killing renewer: silent" in fleet.log(), 10)
                wait_until(work.empty, 20)
        work.exactly_once(tasks)
        assert not work.noted("overlap")


@pytest.fixture
def own_server() -> servers.Iterator[servers.Embedded]:
    """A server that a test may hurt."""
    with servers.throw_away_server(servers.chosen_binaries()) as server:
        servers.prepare(server)
        yield server


def test_worker_stopped_is_not_kept_alive(fresh: str, tmp_path: Path) -> None:
    """A worker under SIGSTOP is renewed no more, dies by the kernel's timer, and its task goes on."""
    with fleets.work(fresh, tmp_path) as work:
        (task,) = work.add("sleepy", seconds=2)
        with fleets.running(fresh, tmp_path, *SHORT, procs=2):
            wait_until(lambda: work.noted("start"))
            victim = int(work.noted("start")[0][4])
            os.kill(victim, signal.SIGSTOP)
            wait_until(lambda: servers.gone(victim), 10, "killed while stopped")
            wait_until(work.empty, 20)
        work.exactly_once([task])
        assert not work.noted("overlap")


def test_claim_whose_reply_was_lost(fresh: str, tmp_path: Path) -> None:
    """The worker connects anew under another identity, and the claim it cannot know is settled."""
    with fleets.work(fresh, tmp_path) as work, proxied(fresh) as (proxy, url):
        with fleets.running(url, tmp_path, procs=2):
            pids = fleets.wait_registered(work, 2)
            proxy.rule = CutOnce(b"ordinary", times=3)
            tasks = work.add("ordinary", 20)
            wait_until(work.empty, 20)
            assert fleets.wait_registered(work, 2) == pids
        assert proxy.cuts == 3
        work.exactly_once(tasks)
        assert {fields[2] for fields in work.noted("start")} == {"1"}


def test_a_connection_lost_in_a_stop_charges_nobody(fresh: str, tmp_path: Path) -> None:
    """The worker leaves without another identity; its end is not taken for the handler's."""
    with fleets.work(fresh, tmp_path) as work, proxied(fresh) as (proxy, url):
        (task,) = work.add("slow", seconds=4)
        with fleets.running(url, tmp_path, "--grace", "20s", procs=1) as fleet:
            wait_until(lambda: work.noted("start"))
            fleet.process.terminate()
            wait_until(lambda: "stopping (SIGTERM): 1 task has up to 20 s" in fleet.log())
            proxy.rule = lambda direction, data: "cut" if b"runner.complete" in data else "pass"
            assert fleet.process.wait(20) == 0
        row = work.row(task)
        assert row is not None
        assert (row["attempt"], row["released"], row["cause"]) == (0, 1, "connection lost")
        assert not work.effects()


def test_a_connection_lost_while_start_looks_around(fresh: str, tmp_path: Path) -> None:
    """It is one more that could not be made, within --connect-wait."""
    with fleets.work(fresh, tmp_path) as work, proxied(fresh) as (proxy, url):
        proxy.rule = CutOnce(b"runner.meta", times=2, direction=">")
        (task,) = work.add("ordinary")
        with fleets.running(url, tmp_path, procs=1) as fleet:
            wait_until(lambda: work.empty() or fleet.process.poll() is not None, 20)
            assert fleet.process.poll() is None, fleet.log()
        assert proxy.cuts == 2
        work.exactly_once([task])


def test_backends_terminated_under_load(fresh: str, tmp_path: Path) -> None:
    """No process dies for it, no attempt is charged, all effects once."""
    with fleets.work(fresh, tmp_path) as work:
        tasks = work.add("slow", 40, seconds=0.1)
        with fleets.running(fresh, tmp_path, procs=4) as fleet:
            pids = set(fleets.wait_registered(work, 4).values())
            query = """select pg_terminate_backend(pid) from pg_stat_activity
                       where application_name like 'runner worker%'
                         and datname = current_database()
                       order by random() limit 1"""
            with psycopg.connect(fresh, autocommit=True) as storm:
                while not work.empty():
                    storm.execute(query)
                    time.sleep(0.05)
            assert set(fleets.wait_registered(work, 4).values()) == pids
            assert "worker_died" not in fleet.log()
        work.exactly_once(tasks)


def test_a_handler_that_holds_the_gil_past_the_lease(fresh: str, tmp_path: Path) -> None:
    """Its timer kills it, nobody is charged, and the cause says what to do about it."""
    with fleets.work(fresh, tmp_path) as work:
        (task,) = work.add("holds_the_gil")
        with fleets.running(fresh, tmp_path, *SHORT, procs=1) as fleet:
            wait_until(lambda: (work.row(task) or {}).get("cause"), 30)
            row = work.row(task)
            assert row is not None
            assert "lease timer" in row["cause"]
            assert row["released"] >= 1
            (told,) = map(json.loads, run("todo", "--json", url=fresh).stdout.splitlines())
            assert (told["kind"], told["type"], told["count"]) == ("failing", "holds_the_gil", 1)
            assert "lease timer" in told["cause"]
            assert told["interrupted"] >= 1
            for verb in ("explain", "show"):
                shown = run(verb, str(task), url=fresh).stdout
                assert "without charge (dead after" in shown
                assert "give it a longer --lease" in shown
            assert "out of memory" not in fleet.log()
