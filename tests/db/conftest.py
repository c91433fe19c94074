"""Fixtures of the database tests."""

from collections.abc import Iterator

import pytest

from runner.store.connect import connect
from runner.store.tx import Tx
from tests.db.attempting import Bench
from tests.servers import Connection


@pytest.fixture
def tx(db: Connection, db_url: str) -> Iterator[Tx]:
    """A worker's connection, lent as a handler gets it; there is a table to leave effects in."""
    db.execute("create table effect (n int)")
    with connect(db_url, "worker test", factory=Tx) as tx:
        tx.lend("1.2")
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
