"""Logins with the rights of deploy/roles.sql, for tests that run as who works rather than as who owns.

With RUNNER_TEST_ROLE=worker a fleet, and whatever a database test connects as a worker, logs in with the
rights of runner_worker and no others on the schema; what tests create (`effect` and the like) stands for
the tables of an app, which a fleet's login is granted.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
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
    return _url_of(url, login_of(name))


def _url_of(url: str, login: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{login}@{host}"))


@dataclass(frozen=True)
class Worker:
    """A login of a test's own, with the rights of whoever works."""

    url: str
    name: str
    admin: psycopg.Connection[Any]

    def limit(self, connections: int | None = None) -> None:
        """Let it have no more than so many, or than it has."""
        if connections is None:
            query = "select count(*) from pg_stat_activity where usename = %s"
            (connections,) = self.admin.execute(query, [self.name]).fetchone() or (0,)
        statement = sql.SQL("alter role {} connection limit {}")
        self.admin.execute(statement.format(sql.Identifier(self.name), sql.Literal(connections)))


@contextmanager
def another_worker(url: str, *roles: str) -> Iterator[Worker]:
    """One for a while; of these roles, too."""
    name = f"{login_of('worker')}_{secrets.token_hex(4)}"
    groups = sql.SQL(", ").join(sql.Identifier(role) for role in (login_of("worker"), *roles))
    with psycopg.connect(url, autocommit=True) as admin:
        login = sql.Identifier(name)
        admin.execute(sql.SQL("create role {} login in role {}").format(login, groups))
        try:
            yield Worker(_url_of(url, name), name, admin)
        finally:
            admin.execute(sql.SQL("drop role {}").format(login))


def as_chosen(url: str) -> str:
    """The URL for whoever works in this run of the suite (RUNNER_TEST_ROLE)."""
    choice = os.environ.get("RUNNER_TEST_ROLE")
    return pooling.through(login_url(url, choice) if choice else url)


def is_chosen(path: Path) -> bool:
    """Whether the tests of a file belong to this run."""
    some = "RUNNER_TEST_ROLE" in os.environ or pooling.wanted()
    return not some or str(path).endswith(WORKS)
