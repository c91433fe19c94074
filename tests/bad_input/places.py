"""Databases that cannot be used, each for another reason, made for real."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from runner.embedded import Embedded
from runner.store.connect import describe
from tests import logins
from tests.bad_input.lines import CASES, Case
from tests.commands import Job, Result, run_jobs
from tests.db.stage import add, announce, one
from tests.servers import (
    chosen_binaries,
    create_database,
    database_url,
    fresh_database,
    major_version,
    reachable_directory,
)

LOCKED = "runner_test_locked"
OLD = "runner.store.connect.OLDEST_SERVER = 10**7"


@contextmanager
def places(server: Embedded) -> Iterator[dict[str, str]]:
    """The URL of each place by its name."""
    with ExitStack() as stack:
        found = {
            name: stack.enter_context(fresh_database(server)) for name in ("db", "older", "newer")
        }
        for name, version in (("older", 0), ("newer", 999)):
            with psycopg.connect(found[name], autocommit=True) as conn:
                conn.execute("update runner.meta set version = %s", [version])
        found["bare"] = create_database(server, "runner_bad_bare")
        stack.callback(_drop, server, "runner_bad_bare")
        found["nowhere"] = database_url(server.url, "nosuch")
        found["old"] = found["db"]
        found["enqueuer"] = logins.login_url(found["db"], "enqueue")
        found["locked"] = stack.enter_context(_locked(found["db"]))
        found["standby"] = stack.enter_context(_standby())
        yield found


def _drop(server: Embedded, name: str) -> None:
    with psycopg.connect(database_url(server.url, "postgres"), autocommit=True) as conn:
        conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@contextmanager
def _locked(url: str) -> Iterator[str]:
    """A login that has a password, in a URL with another one."""
    with psycopg.connect(url, autocommit=True) as conn:
        hba = Path(str(one(conn, "show hba_file")))
        before = hba.read_text()
        conn.execute(f"drop role if exists {LOCKED}; create role {LOCKED} login password 'right'")
        hba.write_text(f"local all {LOCKED} scram-sha-256\n{before}")
        conn.execute("select pg_reload_conf()")
        try:
            yield url.replace("postgres@", f"{LOCKED}:wrong@", 1)
        finally:
            hba.write_text(before)
            conn.execute(f"select pg_reload_conf(); drop role {LOCKED}")


@contextmanager
def _standby() -> Iterator[str]:
    """A server in recovery, which answers and writes nothing."""
    with reachable_directory() as home:
        with (
            Embedded.open(home, binaries=chosen_binaries()) as primary,
            psycopg.connect(primary.url, autocommit=True) as conn,
        ):
            data = Path(str(one(conn, "show data_directory")))
            owner = data.stat()
        signal = data / "standby.signal"
        signal.touch()
        os.chown(signal, owner.st_uid, owner.st_gid)
        with Embedded.open(home, binaries=chosen_binaries()) as standby:
            yield standby.url


def answers(urls: dict[str, str], directory: Path) -> Iterator[tuple[Case, Result, dict[str, Any]]]:
    """Run every case; what it answered, and what its texts stand for."""
    with psycopg.connect(urls["db"], autocommit=True) as conn:
        (ready,) = add(conn, "waits")
        (running,) = add(conn, "waits")
        conn.execute(
            """update runner.task set state = 'running', attempt = 1, fence = 1, lease_owner = %s
               where task_id = %s""",
            [announce(conn, "waits", lease=3600.0), running],
        )
        conn.execute("insert into runner.task (task_type) values ('hello')")
    known: dict[str, Any] = {"ready": ready, "running": running, "major": major_version()}
    known["standby"] = describe(urls["standby"]).partition("@")[2]
    jobs, meant = [], []
    for number, case in enumerate(CASES):
        cwd = directory / str(number)
        cwd.mkdir()
        if case.app is not None:
            (cwd / "tasks.py").write_text(case.app)
        values = known | {"cwd": cwd}
        jobs.append(_job(case, urls, cwd, values))
        meant.append(values)
    yield from zip(CASES, run_jobs(jobs), meant, strict=True)


def _job(case: Case, urls: dict[str, str], cwd: Path, values: dict[str, Any]) -> Job:
    words = [_filled(word, values) for word in case.words]
    url = urls.get(case.place, case.place)
    env = {"DATABASE_URL": url} | ({"PRELUDE": OLD} if case.place == "old" else {})
    return Job(words, env, case.stdin, cwd)


def _filled(text: str, values: dict[str, Any]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def faults(case: Case, result: Result, values: dict[str, Any]) -> list[str]:
    """In what an answer is not as it has to be."""
    told = _filled(case.told, values)
    found = [] if result.returncode == case.code else [f"exit code {result.returncode}"]
    lines = result.stderr.splitlines() or [""]
    first = lines[0].removeprefix("runner: error: ") if case.error else lines[0]
    if (case.error and not lines[0].startswith("runner: error: ")) or not first.startswith(told):
        found.append(f"told: {lines[0]}")
    if case.error and (len(lines) > 2 or any(not line.startswith("hint: ") for line in lines[1:])):
        found.append(f"more than an error and a hint: {lines[1:]}")
    if case.hint is not None and lines[1:] != [f"hint: {case.hint}"]:
        found.append(f"hint: {lines[1:]}")
    if not result.stdout.startswith(case.stdout) or (case.error and result.stdout != case.stdout):
        found.append(f"stdout: {result.stdout}")
    if "Traceback" in result.stderr:
        found.append("a traceback")
    return found
