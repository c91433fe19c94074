"""Cases about the connection that a handler is lent: what it does to it, and what the network does."""

import random
import time
from pathlib import Path

import psycopg
import pytest

from tests import fleets
from tests.cases.aftermath import DEAD, Scene
from tests.fleets import Work
from tests.proxy import CutOnce, Proxy, proxied
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
SWALLOWED = "the handler swallowed a database error"
MISUSED = "the runner ends this transaction"


def failed(work: Work, task: int, attempts: int) -> str:
    """Wait until a task is dead after so many attempts; what its error says."""
    wait_until(lambda: (work.row(task) or {}).get("state") == "dead", 20, f"{task} is dead")
    row = work.row(task)
    assert row is not None
    assert row["attempt"] == attempts
    return str(row["last_error"])


@pytest.mark.case("P-08")
def test_p08_transactions_left_open_or_failed(scene: Scene) -> None:
    """One worker, one after the other: a BEGIN of the handler's own changes nothing (the transaction
    is there already), a swallowed error is a failure, and whoever comes next finds nothing of either."""
    scene.expect(DEAD + ".*" + SWALLOWED)
    work = scene.work
    with scene.fleet("-v", procs=1) as fleet:
        fleets.wait_registered(work, 1)
        (begins,) = work.add("careless", how="begin")
        wait_until(lambda: work.row(begins) is None)
        (swallows,) = work.add("careless", how="swallow")
        (ordinary,) = work.add("ordinary")
        assert SWALLOWED in failed(work, swallows, 2)
        good = [begins, ordinary, *work.add("ordinary", 30)]
        wait_until(work.only_dead)
        assert "25P02" not in fleet.log()
        assert "current transaction is aborted" not in fleet.log()
    work.exactly_once(good)


@pytest.mark.case("P-09")
@pytest.mark.parametrize("group", [False, True], ids=["alone", "in a group"])
def test_p09_a_swallowed_error_is_a_failure(scene: Scene, group: bool) -> None:
    """The DELETE always comes last here, and before it is a look at the transaction: never done with
    nothing saved. An error inside of a block of its own (a savepoint) is the handler's to swallow."""
    scene.expect(DEAD + "2 attempts: .*" + SWALLOWED)
    work = scene.work
    name = "careless_group" if group else "careless"
    with scene.fleet(procs=2):
        (task,) = work.add(name, how="swallow")
        good = work.add(name, 20, how="swallow in a block")
        assert SWALLOWED in failed(work, task, 2)
        wait_until(work.only_dead)
    work.exactly_once(good)


@pytest.mark.case("P-22")
@pytest.mark.parametrize("seconds", [2.5, pytest.param(6.5, marks=pytest.mark.full)])
def test_p22_the_servers_idle_timeout_does_not_hit_handlers(scene: Scene, seconds: float) -> None:
    """Set to a second for everybody; a handler with an open transaction that pauses is not cut off,
    because its bound is its own time limit; nor by the five seconds that our own statements have."""
    work = scene.work
    name = psycopg.sql.Identifier(work.conn.info.dbname)
    work.conn.execute(
        psycopg.sql.SQL("alter database {} set idle_in_transaction_session_timeout = '1s'").format(
            name
        )
    )
    with scene.fleet(procs=1):
        pids = fleets.wait_registered(work, 1)
        tasks = work.add("slow", seconds=seconds)
        wait_until(work.empty, 20)
        assert work.workers() == pids
    work.exactly_once(tasks)
    assert len(work.noted("start")) == 1


@pytest.mark.case("P-33")
def test_p33_handlers_that_end_the_transaction(scene: Scene) -> None:
    """Each is a failed attempt that names the misuse, and refused before anything is sent, so no effect
    stands; a COMMIT hidden behind another statement as well."""
    scene.expect(DEAD + "2 attempts: .*" + MISUSED)
    work = scene.work
    ways = ["commit and raise", "rollback", "behind another", "close"]
    ways += ["conn.commit", "conn.rollback", "autocommit"]
    tasks = [work.add(name, how=how)[0] for how in ways for name in ("careless", "careless_group")]
    good = work.add("ordinary", 20)
    with scene.fleet(procs=2):
        pids = fleets.wait_registered(work, 2)
        for task in tasks:
            assert MISUSED in failed(work, task, 2)
        wait_until(work.only_dead)
        assert work.workers() == pids
    work.exactly_once(good)


@pytest.mark.case("P-34")
def test_p34_commit_whose_reply_was_lost(scene: Scene) -> None:
    """Done is done: the row decides, under the next identity. Only who was in the next task of its batch
    by then runs that again, and it is not charged."""
    work = scene.work
    with proxied(work.url) as (proxy, url):
        with scene.fleet(url=url, procs=2):
            fleets.wait_registered(work, 2)
            proxy.rule = CutOnce(b"C\x00\x00\x00\x0bCOMMIT\x00", times=5)
            tasks = work.add("ordinary", 40)
            wait_until(work.empty, 20)
        assert proxy.cuts == 5
    work.exactly_once(tasks)
    starts = work.noted("start")
    assert 40 <= len(starts) <= 45
    assert {fields[2] for fields in starts} == {"1"}


@pytest.mark.case("P-34")
def test_p34_commit_that_did_not_arrive(scene: Scene) -> None:
    """Cut right before: the effect was not saved, so the task runs once more, and is not charged."""
    work = scene.work
    cuts = CutBefore(b"runner.complete(", times=5)
    with proxied(work.url) as (proxy, url):
        with scene.fleet(url=url, procs=2):
            fleets.wait_registered(work, 2)
            proxy.rule = cuts
            tasks = work.add("ordinary", 40)
            wait_until(work.empty, 20)
        assert proxy.cuts == 5
    work.exactly_once(tasks)
    assert len(work.noted("start")) == 45
    assert {fields[2] for fields in work.noted("start")} == {"1"}


class CutBefore(CutOnce):
    """Cuts at a chunk to the server, so that it does not arrive."""

    def __call__(self, direction: str, data: bytes) -> str:
        return super().__call__("<", data) if direction == ">" else "pass"


@pytest.mark.case("P-34")
@pytest.mark.full
def test_p34_random_cuts(scene: Scene, tmp_path: Path) -> None:
    """Every link is cut at any moment, fifty times: each task has one effect."""
    work = scene.work
    rng = random.Random(11)
    tasks: list[int] = []

    def cut_often(proxy: Proxy) -> bool:
        tasks.extend(work.add("ordinary", 10))
        time.sleep(0.2)
        return proxy.cuts >= 50

    with proxied(work.url) as (proxy, url), scene.fleet(url=url):
        fleets.wait_registered(work, 4)
        proxy.rule = lambda direction, data: "cut" if rng.random() < 0.01 else "pass"
        wait_until(lambda: cut_often(proxy), 120, "cuts")
        assert len(tasks) >= 100
        proxy.rule = lambda direction, data: "pass"
        wait_until(work.empty, 60)
    work.exactly_once(tasks)
