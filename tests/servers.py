"""Throw-away PostgreSQL servers, and the small tools that tests with processes need."""

import ctypes
import os
import re
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg import sql

from chaos.processes import fields_of
from chaos.processes import gone as gone
from runner.embedded import Embedded, find_binaries
from runner.store import schema
from tests import logins

Fact = TypeVar("Fact")
Connection = psycopg.Connection[tuple[Any, ...]]

TEMPLATE = "runner_template"
SHARED = "runner_shared"
PR_SET_CHILD_SUBREAPER = 36


@contextmanager
def reachable_directory() -> Iterator[Path]:
    """A temporary home for a server. Not `tmp_path`: that is 0700, and as root another user must
    get in."""
    path = Path(tempfile.mkdtemp(prefix="runner-test-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def chosen_binaries() -> Path | None:
    """What RUNNER_TEST_PG asks for: `embedded` (the usual search) or `system`."""
    choice = os.environ.get("RUNNER_TEST_PG", "embedded")
    if choice == "system":
        found = system_binaries()
        if found is None:
            pytest.exit("RUNNER_TEST_PG=system, but there is no /usr/lib/postgresql", 1)
        return found
    assert choice == "embedded", f"RUNNER_TEST_PG={choice}: neither embedded nor system"
    return None


def system_binaries() -> Path | None:
    """The newest PostgreSQL that the system's packages installed, if any."""
    found = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    newest = max(found, key=lambda each: float(each.parent.parent.name), default=None)
    return newest.parent if newest else None


@contextmanager
def throw_away_server(binaries: Path | None = None) -> Iterator[Embedded]:
    """A server of its own below a temporary home; stopped and deleted at the end."""
    with reachable_directory() as home, Embedded.open(home, binaries=binaries) as server:
        yield server


def major_version() -> int:
    """The major version of the server that the fixtures use."""
    return find_binaries(only=chosen_binaries()).major


def database_url(url: str, name: str) -> str:
    """The same server, another database."""
    return re.sub(r"/[^/?]*\?", f"/{name}?", url, count=1)


def prepare(server: Embedded) -> None:
    """A template with the schema, and the shared database made from it."""
    create_database(server, TEMPLATE)
    with psycopg.connect(database_url(server.url, TEMPLATE), autocommit=True) as conn:
        schema.install(conn)
    logins.apply(database_url(server.url, TEMPLATE))
    create_database(server, SHARED, TEMPLATE)


def create_database(server: Embedded, name: str, template: str = "template0") -> str:
    """Create a database and return its URL."""
    statement = sql.SQL("create database {} template {}")
    _administer(server, statement.format(sql.Identifier(name), sql.Identifier(template)))
    return database_url(server.url, name)


@contextmanager
def fresh_database(server: Embedded) -> Iterator[str]:
    """The URL of a new database with the schema; dropped afterwards, whoever is still connected."""
    name = f"runner_fresh_{secrets.token_hex(4)}"
    try:
        yield create_database(server, name, TEMPLATE)
    finally:
        statement = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        _administer(server, statement)


def _administer(server: Embedded, statement: sql.Composed) -> None:
    with psycopg.connect(database_url(server.url, "postgres"), autocommit=True) as conn:
        conn.execute(statement)


def empty(conn: Connection) -> None:
    """Delete all rows of the schema, and drop what a test added to `public` or as a new schema."""
    tables = "select table_name from information_schema.tables where table_schema = 'runner'"
    tables += " and table_type = 'BASE TABLE' and table_name <> 'meta'"
    with conn.transaction():
        # In any order: the schema has no foreign keys.
        for (table,) in conn.execute(tables).fetchall():
            conn.execute(sql.SQL("delete from runner.{}").format(sql.Identifier(table)))
        _drop_additions(conn)


def _drop_additions(conn: Connection) -> None:
    extra = "select nspname from pg_namespace where nspname not in ('runner', 'information_schema')"
    extra += " and nspname not like 'pg\\_%'"
    for (name,) in conn.execute(extra).fetchall():
        if name != "public" or _has_objects(conn):
            conn.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))
    conn.execute("create schema if not exists public; grant usage on schema public to public")


def _has_objects(conn: Connection) -> bool:
    query = """
        select exists (select from pg_class where relnamespace = 'public'::regnamespace)
            or exists (select from pg_proc where pronamespace = 'public'::regnamespace)
            or exists (select from pg_type where typnamespace = 'public'::regnamespace)"""
    row = conn.execute(query).fetchone()
    return bool(row and row[0])


def wait_until(fact: Callable[[], Fact], timeout: float = 30.0, why: str = "") -> Fact:
    """Poll until `fact()` is true and return what it gave; fail after `timeout` seconds."""
    end = time.monotonic() + timeout
    while not (found := fact()):
        if time.monotonic() > end:
            name = why or getattr(fact, "__name__", repr(fact))
            raise AssertionError(f"not within {timeout} s: {name} (last: {found!r})")
        time.sleep(0.005)
    return found


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """SIGSTOP on the way in, once the kernel says that it stands; SIGCONT on the way out."""
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: process_state(pid) in ("T", None), why=f"{pid} stopped")
        yield
    finally:
        if process_state(pid) is not None:
            os.kill(pid, signal.SIGCONT)


def process_state(pid: int) -> str | None:
    """The letter of the kernel (R, S, T, Z …); None when there is no such process."""
    fields = fields_of(pid)
    return fields[0] if fields else None


def adopt_orphans(on: bool) -> None:
    """Make processes that lose their parent come to this one, so that none escapes the census."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def descendants() -> dict[int, str]:
    """PID -> command line of all living processes below this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        fields = fields_of(int(entry.name)) if entry.name.isdigit() else None
        if fields and fields[0] != "Z":
            parents[int(entry.name)] = int(fields[1])
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return {pid: _command(pid) for pid in below - {os.getpid()}}


def reap_adopted() -> None:
    """Wait for the zombies among our children; at the end of a test no Popen watches them."""
    for pid in _children():
        if process_state(pid) == "Z":
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def _children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def _command(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return "?"
    return text or "?"


def report_statistics(conn: Connection) -> None:
    """Have the server count what this session has done; it must be in autocommit mode."""
    if conn.info.server_version >= 150000:
        conn.execute("select pg_stat_force_next_flush()")
    else:
        for _ in ("told", "written down"):  # neither more often than every 500 ms
            conn.execute("select pg_sleep(0.6)")
    conn.execute("select pg_stat_clear_snapshot()")
