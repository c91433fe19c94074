"""Behind a pooler in transaction mode: what rests on no session (P-26)."""

import os
import random
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from chaos.pooler import EXAMPLE, Pooler, pooler
from runner.maintaining.listening import Listener
from runner.store import ending
from runner.store.bounded import is_pooled
from runner.store.connect import connect
from runner.store.tx import Tx
from runner.store.workers import Identity, register_worker
from tests import pooling
from tests.db.attempting import Bench
from tests.db.grouping import Groups, good
from tests.servers import Connection

pytestmark = [pytest.mark.db, pytest.mark.direct, pooling.needed]


@pytest.fixture(params=[False, True], ids=["refuses options", "ignores options"])
def through(request: pytest.FixtureRequest, db: Connection, db_url: str) -> Iterator[Pooler]:
    """A pooler with one server connection, so that everybody meets everybody."""
    with pooler(db_url, size=1, ignore_options=request.param) as made:
        yield made


def setting(conn: psycopg.Connection, name: str) -> str:
    row = conn.execute(f"show {name}").fetchone()
    assert row is not None
    return row[0]


def test_it_is_set_as_the_example_is(through: Pooler) -> None:
    """But for the place it is at, and for its size."""
    example = ConfigParser()
    example.read_string(EXAMPLE.read_text())
    found = through.settings()
    differing = {k for k, v in example["pgbouncer"].items() if found[k] != v}
    sizes = {"default_pool_size", "max_client_conn"}
    assert differing == sizes | {"listen_addr", "listen_port", "auth_type", "auth_file"}
    assert found["pool_mode"] == "transaction"


def test_it_is_found_out(through: Pooler, db_url: str) -> None:
    with connect(through.url(), "test") as conn:
        assert is_pooled(conn)
    with connect(db_url, "test") as conn:
        assert not is_pooled(conn)


def test_our_statements_are_bounded_each_by_itself(through: Pooler) -> None:
    with connect(through.url(), "test", statement_seconds=0.2) as conn:
        assert setting(conn, "statement_timeout") == "200ms"
        assert setting(conn, "lock_timeout") == "1s"
        assert setting(conn, "idle_in_transaction_session_timeout") == "5s"
        assert setting(conn, "transaction_isolation") == "read committed"
        with pytest.raises(psycopg.errors.QueryCanceled):
            conn.execute("select pg_sleep(5)")
        with conn.transaction():
            assert setting(conn, "statement_timeout") == "200ms"


def test_nothing_stays_in_the_session(through: Pooler) -> None:
    with connect(through.url(), "test", factory=Tx) as tx:
        for n in range(8):
            assert tx.execute("select %s::int", [n], prepare=True).fetchone() == (n,)
        tx.lend()
        tx.execute("select 1")
        tx.take_back(one_statement=False)
        tx.end(b"COMMIT")
        tx.restore(thorough=True)
        assert tx.execute("select 1", prepare=True).fetchone() == (1,)
    with psycopg.connect(through.url(), autocommit=True) as stranger:
        assert stranger.execute("select from pg_prepared_statements").rowcount == 0
        assert setting(stranger, "statement_timeout") == "0"
        assert not stranger.execute("select current_setting('runner.claim', true)").fetchone()[0]


def test_a_handler_has_the_bounds_of_a_handler(through: Pooler) -> None:
    with connect(through.url(), "test", factory=Tx) as tx:
        tx.lend()
        assert setting(tx, "statement_timeout") == setting(tx, "lock_timeout") == "0"
        assert setting(tx, "runner.claim") == tx.marker
        tx.take_back(one_statement=False)
        tx.end(b"ROLLBACK")


def test_commits_are_durable_whatever_the_default(through: Pooler, db: Connection) -> None:
    name = db.info.dbname
    db.execute(f"alter database {name} set synchronous_commit = off")
    try:
        with connect(through.url(), "test", factory=Tx) as tx:
            assert setting(tx, "synchronous_commit") == "on"
            tx.lend()
            assert setting(tx, "synchronous_commit") == "on"
            tx.take_back(one_statement=False)
            tx.end(b"ROLLBACK")
    finally:
        db.execute(f"alter database {name} reset synchronous_commit")


def test_a_handler_may_choose_its_isolation(through: Pooler, db: Connection) -> None:
    name = db.info.dbname
    db.execute(f"alter database {name} set synchronous_commit = off")
    try:
        with connect(through.url(), "test", factory=Tx) as tx:
            tx.lend()
            tx.execute("set transaction isolation level serializable")
            assert setting(tx, "transaction_isolation") == "serializable"
            assert setting(tx, "synchronous_commit") == "on"
            tx.take_back(one_statement=False)
            tx.end(b"ROLLBACK")
    finally:
        db.execute(f"alter database {name} reset synchronous_commit")


def test_nobody_elses_session_is_ended_for_a_dead_worker(through: Pooler, db: Connection) -> None:
    worker = Identity(uuid4(), uuid4(), "here", 1, 0, ["a"], None, 30.0)
    with connect(through.url(), "worker 0", factory=Tx) as conn:
        register_worker(conn, worker)
    assert db.execute("select backend_pid from runner.worker").fetchone() == (None,)
    with connect(through.url(), "worker 1", factory=Tx) as other:
        other.lend()
        other.execute("select 1")
        ending.terminate_backend(db, worker.worker_id)
        assert other.execute("select 2").fetchone() == (2,)
        other.take_back(one_statement=False)
        other.end(b"COMMIT")


def test_groups_are_groups(through: Pooler, db: Connection, tmp_path: Path) -> None:
    """What cannot be put back behind a pooler ends no group."""
    db.execute("create table effect (n int)")
    bench = Bench(db, through.url())
    bench.conn.restore()
    sink = os.open(tmp_path / "sink", os.O_WRONLY | os.O_CREAT)
    groups = Groups(bench, sink)
    ids = groups.run(good, good, good)
    assert (groups.left(ids), groups.returned) == ({}, None)
    assert groups.effects() == ids
    bench.conn.close()
    os.close(sink)


def test_it_does_not_listen(through: Pooler) -> None:
    listener = Listener(through.url(), random.Random(), 60.0, wanted=True)
    assert listener.keep() is False
    assert listener.fds == []
    assert listener.keep() is False


def test_options_of_the_users_own_are_not_dropped_silently(db_url: str) -> None:
    with pooler(db_url) as refusing:
        url = f"{refusing.url()}&options=-c%20search_path%3Dapp"
        with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter"):
            connect(url, "test")
