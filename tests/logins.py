"""Logins with the rights of deploy/roles.sql, for tests that run as who works rather than as who owns.

With RUNNER_TEST_ROLE=worker a fleet, and whatever a database test connects as a worker, logs in with the
rights of runner_worker and no others on the schema; what tests create (`effect` and the like) stands for
the tables of an app, which a fleet's login is granted.
"""

import os
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from tests import pooling

ROLES = Path(__file__).parent.parent / "deploy" / "roles.sql"
NAMES = ("enqueue", "worker", "read", "admin")

# What is run once more as the worker role, and through a pooler: the whole way of a task, by statements
# and by real fleets. The rest acts as people do who own or administer.
WORKS = (
    *(
        f"tests/db/test_{one}.py"
        for one in ("claim", "completion", "attempt", "attempt_transaction")
    ),
    *(
        f"tests/db/test_{one}.py"
        for one in ("disconnect", "passes", "sweep", "settle", "renew", "tx")
    ),
    *(f"tests/process/test_{one}.py" for one in ("fleet", "batches")),
)


def apply(url: str) -> None:
    """The roles in this database, and a login for each; both may be there already."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(ROLES.read_bytes())
        for name in NAMES:
            login, role = sql.Identifier(login_of(name)), sql.Identifier(f"runner_{name}")
            there = "select from pg_roles where rolname = %s"
            if conn.execute(there, [login_of(name)]).fetchone() is None:
                conn.execute(sql.SQL("create role {} login in role {}").format(login, role))
        for kind in ("tables", "sequences"):
            statement = "alter default privileges grant all on {} to {}"
            worker = sql.Identifier(login_of("worker"))
            conn.execute(sql.SQL(statement).format(sql.SQL(kind), worker))


def login_of(name: str) -> str:
    """The login that has the rights of this role and no others."""
    return f"runner_test_{name}"


def login_url(url: str, name: str) -> str:
    """The same database for another login."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{login_of(name)}@{host}"))


def as_chosen(url: str) -> str:
    """The URL for whoever works in this run of the suite (RUNNER_TEST_ROLE)."""
    choice = os.environ.get("RUNNER_TEST_ROLE")
    return pooling.through(login_url(url, choice) if choice else url)


def is_chosen(path: Path) -> bool:
    """Whether the tests of a file belong to this run."""
    some = "RUNNER_TEST_ROLE" in os.environ or pooling.wanted()
    return not some or str(path).endswith(WORKS)
