"""Fixtures of the database tests."""

import os
from collections.abc import Iterator

import psycopg
import pytest

from runner.store.connect import connect
from runner.store.tx import Tx
from tests.db.attempting import Bench
from tests.db.grouping import EFFECT, LARGE, PREPARED, SLEEP, Groups
from tests.db.rehearsing import Stage
from tests.db.stage import consistent, effects, one
from tests.servers import Connection


@pytest.fixture
def tx(db: Connection, db_url: str) -> Iterator[Tx]:
    """A worker's connection, lent as a handler gets it; there is a table to leave effects in."""
    db.execute("create table effect (n int)")
    with connect(db_url, "worker test", factory=Tx) as tx:
        tx.lend()
        yield tx
        tx.lent = False


@pytest.fixture
def bench(db: Connection, db_url: str) -> Iterator[Bench]:
    """A worker without a process; there is a table to leave effects in."""
    db.execute("create table effect (n int)")
    bench = Bench(db, db_url)
    yield bench
    bench.conn.lent = False
    bench.conn.close()


@pytest.fixture(params=[False, True], ids=["outside", "inside a transaction"])
def stage(request: pytest.FixtureRequest, db: Connection, db_url: str) -> Iterator[Stage]:
    """Both ways; at the end nothing is left of the drain, and of the transaction nothing at all."""
    db.execute("create table effect (n int)")
    with psycopg.connect(db_url, autocommit=not request.param) as conn:
        stage = Stage(conn, db, request.param)
        yield stage
        if not conn.closed and not conn.broken:
            assert one(conn, "select count(*) from runner.worker") == 0
            assert one(conn, "select count(*) from runner.task where state = 'running'") == 0
            assert consistent(conn)
            conn.rollback()
    if request.param:
        assert effects(db) == 0
        assert one(db, "select count(*) from runner.task") == 0


@pytest.fixture(params=[False, True], ids=["new statements", "prepared statements"])
def groups(bench: Bench, db: Connection, request: pytest.FixtureRequest) -> Iterator[Groups]:
    """Statements that psycopg has prepared travel with what goes before them; others by themselves."""
    for _ in range(PREPARED if request.param else 0):
        bench.conn.execute(EFFECT, [0])
        bench.conn.execute(SLEEP, [0.0])
        bench.conn.execute(LARGE, [0, "x"])
        bench.conn.execute("select 1 / %s", [1])
    db.execute("truncate effect")
    bench.conn.restore()
    sink = os.open(os.devnull, os.O_WRONLY)
    yield Groups(bench, sink)
    os.close(sink)
