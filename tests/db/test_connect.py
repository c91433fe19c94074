"""The bounds of our own connections, each set on its own and all below the shortest lease."""

import time

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from runner.config import FleetConfig
from runner.store.connect import connect, conninfo
from tests.db.stage import one
from tests.servers import Connection

pytestmark = pytest.mark.db

BOUNDS = {
    "statement_timeout": "3s",
    "lock_timeout": "1s",
    "idle_in_transaction_session_timeout": "5s",
    "synchronous_commit": "on",
    "default_transaction_isolation": "read committed",
}


def test_each_bound_is_set(db: Connection, db_url: str) -> None:
    with connect(db_url, "test") as conn:
        assert {name: one(conn, f"show {name}") for name in BOUNDS} == BOUNDS
        assert one(conn, "show application_name") == "runner test"
    assert conninfo_to_dict(conninfo(db_url, "test"))["connect_timeout"] == "3"


def test_a_setting_of_the_database_does_not_loosen_them(db: Connection, db_url: str) -> None:
    name = db.info.dbname
    for setting in ("statement_timeout = 0", "lock_timeout = 0", "synchronous_commit = off"):
        db.execute(f'alter database "{name}" set {setting}')
    try:
        with connect(db_url, "test") as conn:
            assert {name: one(conn, f"show {name}") for name in BOUNDS} == BOUNDS
    finally:
        db.execute(f'alter database "{name}" reset all')


def test_a_claim_has_a_bound_of_its_own(db: Connection, db_url: str) -> None:
    config = FleetConfig(db_url, None, lease_seconds=3)
    assert config.claim_seconds == 1.0
    with connect(db_url, "test", statement_seconds=config.claim_seconds) as conn:
        began = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            conn.execute("select pg_sleep(60)")
        assert 0.9 < time.monotonic() - began < 30
