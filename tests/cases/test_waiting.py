"""Cases about who waits and who is woken: P-61, P-65."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests import fleets
from tests.cases.aftermath import Scene
from tests.commands import run
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]


@contextmanager
def flood(work: fleets.Work, task_type: str, least: int) -> Iterator[list[int]]:
    """So many of a type are ready, all the time that the block takes; their ids."""
    ids = work.add(task_type, least, seconds=0.01)
    over = threading.Event()
    query = """insert into runner.task (task_type, params)
        select %(type)s, '{"seconds": 0.01}' from generate_series(1, %(least)s - (
            select count(*) from runner.task where task_type = %(type)s and state = 'ready'))
        returning task_id"""

    def feed() -> None:
        with psycopg.connect(work.url, autocommit=True) as conn:
            while not over.wait(0.02):
                rows = conn.execute(query, {"type": task_type, "least": least}).fetchall()
                ids.extend(row[0] for row in rows)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        yield ids
    finally:
        over.set()
        feeder.join(20)


CLASSES = ("--priority", "slow=0", "--priority", "ordinary=9", "--fair")


@pytest.mark.case("P-61")
@pytest.mark.parametrize(
    ("fair", "low"), [("0.5", 6), pytest.param("0.05", 20, marks=pytest.mark.full)]
)
def test_p61_a_flood_of_the_first_class_starves_nobody(scene: Scene, fair: str, low: int) -> None:
    """A documented share of claims ignores the classes (1 in 20; more here, to be quick): so the last
    class is served while the first never ends."""
    work = scene.work
    last = work.add("ordinary", low)
    with scene.fleet(*CLASSES, fair, procs=2):
        with flood(work, "slow", 100) as first:
            wait_until(lambda: set(last) <= set(work.effects()), 60, "served beside it")
            assert work.states()["ready"] > 0
        wait_until(work.empty, 60)
    work.exactly_once([*first, *last])


@pytest.mark.case("P-61")
def test_p61_strict_classes_where_asked_for(scene: Scene) -> None:
    """With `--fair 0` the last class waits for the first to end, and `status` and `explain` say so."""
    work = scene.work
    last = work.add("ordinary", 3)
    with flood(work, "slow", 100) as first, scene.fleet(*CLASSES, "0", procs=2):
        wait_until(lambda: len(work.effects()) > 50, 20)
        shown = json.loads(run("status", "--json", url=work.url).stdout)
        ages = {one["name"]: one["oldest_ready_seconds"] for one in shown["types"]}
        assert ages["ordinary"] > 0.2
        why = run("explain", str(last[0]), url=work.url).stdout  # whatever is nearer just then
        assert re.match(r"task \d+ is ready, .*(priority|busy)", why), why
        assert not set(last) & set(work.effects())
    with scene.fleet(*CLASSES, "0", procs=2):
        wait_until(work.empty, 60)  # without the flood it is done
    work.exactly_once([*first, *last])


@pytest.mark.case("P-65")
@pytest.mark.parametrize(("hosts", "workers"), [(2, 6), pytest.param(4, 8, marks=pytest.mark.full)])
def test_p65_one_task_wakes_few(scene: Scene, hosts: int, workers: int) -> None:
    """A hundred single tasks beside many idle workers: one or two claims a host for each, and not one of
    everybody. Counted in the server's log."""
    work = scene.work
    count = 100
    with log_of_claims(work) as claims, Hosts(scene, hosts, workers):
        before = claims()
        ids = work.add("ordinary")
        wait_until(work.empty, 20)
        for _ in range(count - 1):
            ids += work.add("ordinary")
            time.sleep(0.01)
        wait_until(work.empty, 20)
        spent = claims() - before
    work.exactly_once(ids)
    assert count <= spent <= 3 * count * hosts, f"{spent / count:.1f} claims a task"


@contextmanager
def log_of_claims(work: fleets.Work) -> Iterator[Callable[[], int]]:
    """How many claims the server has been sent; from sessions that begin inside the block."""
    (name, data) = work.conn.execute(
        "select current_database(), current_setting('data_directory')"
    ).fetchone() or ("", "")
    log = Path(data).parent / "log"
    begin = log.stat().st_size
    change = sql.SQL("alter database {} set log_statement = 'all'").format(sql.Identifier(name))
    work.conn.execute(change)
    yield lambda: log.read_bytes()[begin:].count(b"for key share")


class Hosts:
    """Several fleets side by side, all of them idle when the block begins."""

    def __init__(self, scene: Scene, hosts: int, workers: int) -> None:
        self.work = scene.work
        self.total = hosts * workers
        self.hosts = hosts
        self._fleets = [scene.fleet("--poll", "30s", procs=workers) for _ in range(hosts)]

    def __enter__(self) -> "Hosts":
        for one in self._fleets:
            one.__enter__()
        query = "select from runner.worker"
        wait_until(lambda: self.work.conn.execute(query).rowcount == self.total, 60, "all there")
        query = "select from runner.runner where idle"
        wait_until(lambda: self.work.conn.execute(query).rowcount == self.hosts, 60, "all idle")
        return self

    def __exit__(self, *failure: object) -> None:
        for one in reversed(self._fleets):
            one.__exit__(None, None, None)
