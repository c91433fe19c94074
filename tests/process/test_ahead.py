"""COMMITs that nobody waited for, with real workers: kills, failures, and what is counted."""

import json
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from runner.store import tallies
from tests import fleets
from tests.hurting import hurtable, reconnect
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
ENDS = ("ok", "retried", "dead", "unknown")


def with_late(work: fleets.Work) -> None:
    work.conn.execute("create table late_parent (id bigint primary key)")
    work.conn.execute(
        "create table late (task_id bigint references late_parent deferrable initially deferred)"
    )


def all_done_and_nobody_charged(work: fleets.Work, ids: list[int]) -> None:
    work.exactly_once(ids)
    assert {fields[2] for fields in work.noted("start")} == {"1"}
    (one,) = tallies.totals(work.conn)
    assert (one["done"], one["failed"], one["dead"]) == (len(ids), 0, 0)


@pytest.mark.parametrize("procs", [1, 3])
def test_a_drain_counts_each_end_once(fresh: str, tmp_path: Path, procs: int) -> None:
    """Only who kills its process is charged; whoever was committed before it is counted all the same."""
    with fleets.work(fresh, tmp_path) as work:
        with_late(work)
        good, killers, bad = [], [], []
        for number in range(8):
            good += work.add("writes", 60)
            killers += work.add("writes", how="before" if number % 2 else "after")
            good += work.add("writes", 60)
            bad += work.add("writes", how="late")
        found: Counter[str] = Counter()
        while not work.only_dead():  # what is to be tried again later is left
            with fleets.running(fresh, tmp_path, "--json", verb="drain", procs=procs) as fleet:
                fleet.process.wait(60)
            told = [line for line in fleet.log().splitlines() if line.startswith("{")]
            found.update({end: json.loads(told[-1])[end] for end in ENDS})
        work.exactly_once([*good, *killers])
        assert work.causes() == {("writes", "psycopg.errors.ForeignKeyViolation", 2): len(bad)}
        charged = {int(fields[1]) for fields in work.noted("start") if fields[2] != "1"}
        assert charged == {*killers, *bad}
        ok, twice, dead = len(good) + len(killers), len(killers) + len(bad), len(bad)
        assert [found[end] for end in ENDS] == [ok, twice, dead, 0]
        (one,) = tallies.totals(work.conn)
        assert (one["done"], one["failed"], one["dead"]) == (ok, twice + dead, dead)


def test_kills_lose_and_double_nothing(fresh: str, tmp_path: Path) -> None:
    """Every task is counted as done once, however many workers were killed between COMMIT and answer."""
    kills = 150 if os.environ.get("RUNNER_TEST_FULL") else 20
    rng = random.Random(11)
    with fleets.work(fresh, tmp_path) as work:
        ids = work.add("ordinary", 500)
        killed = 0
        with fleets.running(fresh, tmp_path, procs=3) as fleet:
            while killed < kills:
                if sum(work.states().values()) < 200:
                    ids += work.add("ordinary", 1000)
                with suppress(ProcessLookupError, IndexError):
                    os.kill(rng.choice(list(work.workers().values())), signal.SIGKILL)
                    killed += 1
                time.sleep(rng.uniform(0.02, 0.15))
            wait_until(work.empty, 120)
            assert fleet.stop() == 0
        work.exactly_once(ids)
        assert not work.noted("overlap")
        (one,) = tallies.totals(work.conn)
        assert (one["done"], one["dead"]) == (len(ids), 0)
        assert one["failed"] <= kills


def test_stops_charge_nobody(fresh: str, tmp_path: Path) -> None:
    """A stop between two tasks, in the midst of one, or before the next: none runs twice."""
    rng = random.Random(5)
    with fleets.work(fresh, tmp_path) as work:
        ids = work.add("writes", 6000)
        for _ in range(6):
            with fleets.running(fresh, tmp_path, procs=2) as fleet:
                fleets.wait_registered(work, 2)
                time.sleep(rng.uniform(0.02, 0.3))
                assert fleet.stop() == 0
            assert work.running() == 0
        with fleets.running(fresh, tmp_path, verb="drain", procs=2) as fleet:
            assert fleet.process.wait(60) == 0
        work.exactly_once(ids)
        assert {fields[2] for fields in work.noted("start")} == {"1"}
        assert len(work.noted("start")) == len(ids)
        (one,) = tallies.totals(work.conn)
        assert (one["done"], one["failed"], one["dead"]) == (len(ids), 0, 0)


@pytest.mark.full
def test_crashes_of_the_server_charge_nobody(tmp_path: Path) -> None:
    """Of what was on its way the row says whether it was committed."""
    rng = random.Random(3)
    with hurtable() as (server, url), fleets.work(url, tmp_path) as work:
        ids: list[int] = []
        with fleets.running(url, tmp_path, procs=2) as fleet:
            for _ in range(6):
                fleets.wait_registered(work, 2)
                ids += work.add("writes", 3000)
                time.sleep(rng.uniform(0.1, 0.5))
                server.crash()
                server.start()
                reconnect(work)
            wait_until(work.empty, 60)
            assert fleet.stop() == 0
        all_done_and_nobody_charged(work, ids)


@pytest.mark.full
def test_sessions_ended_under_load_charge_nobody(fresh: str, tmp_path: Path) -> None:
    """Connections cut at any moment, the workers alive."""
    rng = random.Random(9)
    with fleets.work(fresh, tmp_path) as work:
        ids = work.add("writes", 2000)
        with fleets.running(fresh, tmp_path, procs=2) as fleet:
            for _ in range(40):
                if sum(work.states().values()) < 500:
                    ids += work.add("writes", 2000)
                work.conn.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where application_name like 'runner worker%'"
                )
                time.sleep(rng.uniform(0.02, 0.2))
            wait_until(work.empty, 60)
            assert fleet.stop() == 0
        all_done_and_nobody_charged(work, ids)
