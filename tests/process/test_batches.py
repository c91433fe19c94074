"""Batches without hoarding, and groups, with real workers and real kills."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from runner import kernel
from tests import fleets
from tests.servers import gone, stopped, wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
SHORT = ("--lease", "3s", "--renew", "500ms")


def test_nobody_hoards(fresh: str, tmp_path: Path) -> None:
    """A long task among short ones of its own type: what its worker holds is given back."""
    with fleets.work(fresh, tmp_path) as work:
        with fleets.running(fresh, tmp_path, "--grace", "1s", procs=2):
            work.add("counted", 200)  # so that both know the type as short, and claim many
            wait_until(work.empty, 20)
            (long,) = work.add("counted", seconds=30)
            work.add("counted", 400, seconds=0.001)
            began = time.monotonic()
            wait_until(lambda: sum(work.states().values()) == 1, 20, "only the long one left")
            assert time.monotonic() - began < 20
            assert work.row(long) is not None
        assert {fields[2] for fields in work.noted("start")} == {"1"}


def test_nobody_hoards_permits(fresh: str, tmp_path: Path) -> None:
    """One worker took eight, claimed one task, and the others stood by while it ran."""
    with fleets.work(fresh, tmp_path) as work:
        work.add("sleepy", 3, seconds=2)
        with fleets.running(fresh, tmp_path, "--max-tasks", "3", verb="drain", procs=2) as fleet:
            wait_until(lambda: work.running() == 2, 20, "both at work")
            assert fleet.process.wait(60) == 0
        assert work.empty()


def test_a_drain_waits_for_what_is_being_given_back(fresh: str, tmp_path: Path) -> None:
    """By a renewer that stands still for a while: until then it is nobody's, and ready for nobody."""
    with fleets.work(fresh, tmp_path) as work:
        work.add("counted", 300)
        (long,) = work.add("counted", seconds=2.5)
        tasks = work.add("counted", 50)
        work.conn.execute("update runner.task set shuffle = 1000 + task_id")
        options = ("--lease", "30s", "--renew", "5s")
        with fleets.running(fresh, tmp_path, *options, verb="drain", procs=1) as fleet:
            started = lambda: str(long) in {fields[1] for fields in work.noted("start")}  # noqa: E731
            wait_until(started, 30, "the long one runs")
            (renewer,) = (
                pid
                for pid in kernel.children_of(fleet.pid)
                if Path(f"/proc/{pid}/comm").read_text() == "runner: renewer\n"
            )
            with stopped(renewer), suppress(subprocess.TimeoutExpired):
                fleet.process.wait(6)
            assert fleet.process.wait(60) == 0
        assert work.empty(), (work.states(), len(tasks))


def test_only_the_killer_of_a_batch_is_charged(fresh: str, tmp_path: Path) -> None:
    """P-02 in a batch: the others are on their first attempt, before and after."""
    with fleets.work(fresh, tmp_path) as work:
        work.add("counted", 250)
        (killer,) = work.add("counted", kill=True)
        work.add("counted", 249)
        with fleets.running(fresh, tmp_path, procs=2):
            wait_until(work.empty, 30)
        attempts = {(int(f[1]), int(f[2])) for f in work.noted("start")}
        assert {task for task, attempt in attempts if attempt > 1} == {killer}
        assert len({task for task, _ in attempts}) == 500


def test_kills_under_load_lose_nothing(fresh: str, tmp_path: Path) -> None:
    """As many tasks run twice as workers were killed, at most: the one that each was in."""
    kills = 200 if os.environ.get("RUNNER_TEST_FULL") else 25
    rng = random.Random(7)
    with fleets.work(fresh, tmp_path) as work:
        ids = work.add("counted", kills * 400)
        killed = 0
        with fleets.running(fresh, tmp_path, procs=4):
            while killed < kills:
                if work.empty():
                    ids += work.add("counted", 2000)
                with suppress(ProcessLookupError, IndexError):
                    os.kill(rng.choice(list(work.workers().values())), signal.SIGKILL)
                    killed += 1
                time.sleep(rng.uniform(0.02, 0.15))
            wait_until(work.empty, 120)
        runs = Counter(int(fields[1]) for fields in work.noted("start"))
        assert set(runs) == set(ids)
        assert sum(count - 1 for count in runs.values()) <= kills


def test_a_group_with_failures_in_it(fresh: str, tmp_path: Path) -> None:
    """The others' effects stand; those that raise have left none, and are tried again by themselves."""
    with fleets.work(fresh, tmp_path) as work:
        good = work.add("grouped", 180)
        work.add("grouped", 20, how="raise")
        with fleets.running(fresh, tmp_path, procs=2):
            wait_until(work.only_dead, 30)
        assert work.causes() == {("grouped", "ValueError", 2): 20}
        work.exactly_once(good)


def test_an_end_behind_a_statement_of_a_group(fresh: str, tmp_path: Path) -> None:
    """It is refused before it is run: of the others none is committed early, and none runs twice."""
    with fleets.work(fresh, tmp_path) as work:
        good = work.add("grouped", 180)
        work.add("grouped", 20, how="commit")
        with fleets.running(fresh, tmp_path, procs=2):
            wait_until(work.only_dead, 30)
        assert work.causes() == {("grouped", "TransactionMisuse", 2): 20}
        work.exactly_once(good)
        starts = Counter(int(fields[1]) for fields in work.noted("start"))
        assert {starts[task] for task in good} == {1}


def test_a_worker_killed_in_a_group(fresh: str, tmp_path: Path) -> None:
    """The whole transaction is gone; only the task that had begun is charged."""
    with fleets.work(fresh, tmp_path) as work:
        good = work.add("grouped", 100)
        (killer,) = work.add("grouped", how="kill")
        good += work.add("grouped", 99)
        with fleets.running(fresh, tmp_path, procs=2):
            wait_until(work.empty, 30)
        work.exactly_once([*good, killer])
        charged = {int(fields[1]) for fields in work.noted("start") if fields[2] != "1"}
        assert charged == {killer}


def test_a_group_that_fails_at_its_commit(fresh: str, tmp_path: Path) -> None:
    """Given back, and run one by one: then only the one to blame fails."""
    with fleets.work(fresh, tmp_path) as work:
        work.conn.execute("create table late_parent (id bigint primary key)")
        work.conn.execute(
            "create table late (task_id bigint references late_parent deferrable initially deferred)"
        )
        good = work.add("grouped", 60)
        work.add("grouped", how="late")
        with fleets.running(fresh, tmp_path, procs=2):
            wait_until(work.only_dead, 30)
        work.exactly_once(good)
        causes = work.causes()
        assert causes == {("grouped", "psycopg.errors.ForeignKeyViolation", 2): 1}


def test_a_batch_that_only_a_sweep_finds(fresh: str, tmp_path: Path) -> None:
    """Parent and workers gone: everything is refunded, marked, and runs alone from then on."""
    with fleets.work(fresh, tmp_path) as work:
        ids: list[int] = []
        with fleets.running(fresh, tmp_path, *SHORT, procs=1) as fleet:
            while work.running() < 2:  # on a slow machine a short task may look like a long one
                work.conn.execute("delete from runner.task")
                work.add("counted", 200)
                wait_until(work.empty, 20)
                before = len(work.noted("start"))
                ids = work.add("counted", 30, seconds=0.5)
                wait_until(lambda least=before: len(work.noted("start")) > least, 20)
            workers = list(work.workers().values())
            os.kill(fleet.pid, signal.SIGKILL)
            wait_until(lambda: all(gone(pid) for pid in workers))
            held = work.running()
        with fleets.running(fresh, tmp_path, *SHORT, procs=4):
            solo = "select count(*) from runner.task where solo"
            wait_until(lambda: work.conn.execute(solo).fetchone() != (0,), 15)
            wait_until(work.empty, 40)
        assert held > 1
        started = Counter(int(fields[1]) for fields in work.noted("start"))
        assert set(ids) <= set(started)
        assert {fields[2] for fields in work.noted("start")} == {"1"}


def test_transactions_that_are_begun_ahead(fresh: str, tmp_path: Path) -> None:
    """Handlers that write, that do not, that choose their isolation, and that fail, one after the
    other in one batch: each in a transaction of its own, and none in that of another."""
    with fleets.work(fresh, tmp_path) as work:
        work.add("mixed", 400, how="write")
        with fleets.running(fresh, tmp_path, procs=2):
            wait_until(work.empty, 20)  # so that both claim many at once
            ways = ("write", "nothing", "serializable", "attribute", "fail")
            ids = {how: work.add("mixed", 40, how=how) for how in ways}
            wait_until(work.only_dead, 30)
        effects = work.effects()
        good = [*ids["write"], *ids["serializable"], *ids["attribute"]]
        assert set(good) <= set(effects)
        assert set(effects.values()) == {1}
        assert not set(effects) & {*ids["nothing"], *ids["fail"]}
        assert work.causes() == {("mixed", "ValueError", 1): 40}
