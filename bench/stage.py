"""Where a run takes place: a server, a temporary directory, and a new database for each workload."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bench.interrupts import deferred
from runner.embedded import Embedded, reset
from runner.store import schema

Connection = psycopg.Connection[tuple[Any, ...]]

# Loaded at the start because it cannot be later, and asleep except in sessions that ask for it.
STATEMENTS = "pg_stat_statements"
TRACKED = f"-c {STATEMENTS}.track=top"

SETUP = """
create schema bench;
create table bench.effect (task_id bigint not null, at timestamptz not null default now());
"""


@dataclass(frozen=True)
class Stage:
    """The server under measurement and a directory for everything else."""

    url: str
    directory: Path
    embedded: bool
    statements: bool  # whether pg_stat_statements can be used


@contextmanager
def stage(url: str | None, below: Path | None) -> Iterator[Stage]:
    """A server for one run: that of `url`, else one of our own. Leaves nothing."""
    with _directory(below) as directory:
        if url is not None:
            yield Stage(url, directory, False, _has_statements(url))
            return
        server: Embedded | None = None
        try:
            with deferred():
                server = Embedded.open(directory)
                if _ask_for_statements(server.url):
                    server.close()  # the last user leaves: the next one starts it with the setting
                    server = Embedded.open(directory)
            yield Stage(server.url, directory, True, _has_statements(server.url))
        finally:
            if server is not None:
                server.close()
                reset(directory)  # its sockets may lie elsewhere, where paths are short


@contextmanager
def database(place: Stage) -> Iterator[str]:
    """The URL of a new database with the schema and the effects' table; dropped at the end."""
    name = f"runner_bench_{secrets.token_hex(4)}"
    identifier = sql.Identifier(name)
    try:
        with deferred():
            _administer(
                place.url, sql.SQL("create database {} template template0").format(identifier)
            )
        url = make_conninfo("", **(conninfo_to_dict(place.url) | {"dbname": name}))
        with connect(url) as conn:
            schema.install(conn)
            conn.execute(sql.SQL(SETUP))
            if place.statements:
                conn.execute(f"create extension {STATEMENTS}")
        yield url
    finally:
        _administer(
            place.url, sql.SQL("drop database if exists {} with (force)").format(identifier)
        )


def connect(url: str) -> Connection:
    """A session of the bench's own, in autocommit."""
    return psycopg.connect(url, autocommit=True, application_name="bench")


def tracked(url: str) -> str:
    """The same database, with the statements of its sessions counted."""
    parts = conninfo_to_dict(url)
    options = f"{parts.get('options') or ''} {TRACKED}".strip()
    return make_conninfo("", **(parts | {"options": options}))


@contextmanager
def _directory(below: Path | None) -> Iterator[Path]:
    path: Path | None = None
    try:
        with deferred():
            path = Path(tempfile.mkdtemp(prefix="runner-bench-", dir=below))
        if os.geteuid() == 0:
            path.chmod(0o755)  # the server runs as another user, who has to get in
        yield path
    finally:
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)


def _ask_for_statements(url: str) -> bool:
    """Whether a restart will load the extension: where its library is missing nothing would start."""
    with connect(url) as conn:
        found = conn.execute(
            "select from pg_available_extensions where name = %s", [STATEMENTS]
        ).fetchone()
        if found is None:
            return False
        conn.execute(f"load '{STATEMENTS}'")
        conn.execute(f"alter system set shared_preload_libraries = '{STATEMENTS}'")
        conn.execute(f"alter system set {STATEMENTS}.track = 'none'")
    return True


def _has_statements(url: str) -> bool:
    """Loaded in the server, and we may both make it and have our sessions counted."""
    with connect(url) as conn:
        loaded = conn.execute("select current_setting('shared_preload_libraries')").fetchone()
        role = conn.execute("select rolsuper from pg_roles where rolname = current_user").fetchone()
    return bool(loaded and STATEMENTS in loaded[0] and role and role[0])


def _administer(url: str, statement: sql.Composed) -> None:
    with connect(url) as conn:
        conn.execute(statement)
