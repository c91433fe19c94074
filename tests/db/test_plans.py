"""Plans that were made while there were few tasks, and are not kept when many have come: counted in
blocks of the table and its indexes, which a busy machine does not change."""

import random
from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest

from runner.clock import now
from runner.config import FleetConfig
from runner.handling import looking
from runner.handling.looking import Looking
from runner.registry import Registry
from runner.store.connect import connect
from runner.store.sending import SETTINGS, Completion
from runner.store.tx import Tx
from tests.db.stage import add, announce, one
from tests.servers import Connection, major_version, report_statistics

pytestmark = pytest.mark.db

FEW, MANY = 8, 20_000


class Worker:
    """What a worker does with its session: claim, use it, complete."""

    def __init__(self, conn: Tx, worker_id: UUID) -> None:
        registry = Registry()
        registry.add(lambda tx, task: None, "t")
        config = FleetConfig("postgresql://h/d", "tasks")
        self.conn, self.worker_id = conn, worker_id
        self.looking = Looking(conn, worker_id, config, None, registry, random.Random(1))

    def works(self, count: int) -> float:
        """Do so many, one by one; blocks a task."""
        before = self.blocks()
        for _ in range(count):
            (row,) = self.looking.claim(lambda _: 1, [], lambda: None, full=False)
            self.conn.lend()
            self.conn.execute("select 1")
            self.conn.take_back(one_statement=False)
            completion = Completion(
                row.task_id, str(self.worker_id), row.fence, self.conn.marker, row.ctid
            )
            self.conn.finish(completion)
        return (self.blocks() - before) / count

    def blocks(self) -> int:
        report_statistics(self.conn)
        query = """select heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read
                   from pg_statio_user_tables where relid = 'runner.task'::regclass"""
        return int(one(self.conn, query))


@pytest.fixture
def outside(fresh: str) -> Iterator[Connection]:
    """Nobody analyzes the table but us: what autovacuum does a minute later is too late."""
    with psycopg.connect(fresh, autocommit=True) as conn:
        conn.execute("alter table runner.task set (autovacuum_enabled = off)")
        yield conn


@pytest.fixture
def worker(fresh: str, outside: Connection) -> Iterator[Worker]:
    """One that has worked off a few tasks, again and again."""
    with connect(fresh, "worker 0", more=SETTINGS, factory=Tx) as conn:
        made = Worker(conn, announce(outside, "t", lease=600.0))
        for _ in range(3):
            add(outside, count=FEW)
            made.works(FEW)
            outside.execute("vacuum analyze runner.task")
        yield made


@pytest.mark.skipif(major_version() < 15, reason="before 15 kinds are not listed at one price")
def test_old_plans_are_forgotten_while_there_is_work(
    worker: Worker, outside: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(outside, count=FEW)
    few = worker.works(FEW)
    add(outside, count=MANY)
    monkeypatch.setattr(looking, "now", lambda: now() + looking.PLAN_SECONDS)
    assert worker.works(FEW) < 6 * few


def test_a_slow_look_is_not_taken_again(
    worker: Worker, outside: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(outside, count=FEW)
    few = worker.works(FEW)
    add(outside, count=MANY)
    monkeypatch.setattr(looking, "SLOW_SECONDS", 0.0)  # else a fast machine is not slow at so few
    worker.works(1)
    assert worker.works(FEW) < 6 * few
