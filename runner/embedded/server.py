"""Make, start, probe and stop the server of one place. The caller holds the lock for changes."""

import os
import re
import shlex
import shutil
import signal
import time
from pathlib import Path

import psycopg
from psycopg import pq, sql

from ..errors import EmbeddedError
from . import processes
from .account import CALL_SECONDS, Account, account_for
from .binaries import Binaries, find_binaries, reachable
from .place import (
    DATABASE,
    USER,
    Place,
    make_private,
    open_file,
    try_exclusive,
)

PROBE_SECONDS = 10  # a server that accepts a connection but says nothing for so long is stuck
START_SECONDS = 5.0  # until pg_ctl, once run, shows a process of PostgreSQL
LOG_BYTES = 10_000_000  # a longer log is set aside at the next start
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "cluster_name": "runner",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "15min",
    "jit": "off",  # costs more than the whole of a short statement
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "lc_messages": "C",
}


def ensure_running(place: Place, alone: bool, only: Path | None = None) -> None:
    """Start the server unless it answers, and make the database; `alone`: nobody else uses it."""
    if not alive(place) and not _about_to_run(place):
        account = account_for(place.server)
        _prepare(place, account, alone)
        programs = find_binaries(place.version(), only)
        programs = reachable(programs, account, place.home / "binaries")
        if place.version() is None:
            _initialise(place, account, programs)
        _start(place, account, programs)
    _make_database(place)


def alive(place: Place) -> bool:
    """Whether it answers a real connection; one that is starting or stopping is waited for."""
    end = time.monotonic() + CALL_SECONDS
    while (answer := _ping(place)) == pq.Ping.REJECT:
        if time.monotonic() > end:
            raise EmbeddedError(f"the server is still starting or stopping, see {place.log}")
        time.sleep(0.02)
    return answer == pq.Ping.OK


def stop(place: Place) -> None:
    """Stop it, whoever started it: fast (ends sessions, writes a checkpoint), else at once.

    Raises EmbeddedError when it is still there after that.
    """
    for number, seconds in ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0)):
        pid = processes.postmaster(place.data)
        if pid is not None:
            processes.send(pid, number)
        if processes.wait_gone(place.data, seconds if pid else 0.0):
            break
    processes.end_orphans(place.data)
    if place.server.exists():
        os.close(_take_lock(place))


def _ping(place: Place) -> pq.Ping:
    conninfo = f"{place.url('postgres')}&connect_timeout={PROBE_SECONDS}"
    return pq.Ping(pq.PGconn.ping(conninfo.encode()))


def _prepare(place: Place, account: Account, alone: bool) -> None:
    """Private directories, and no trace of an earlier server that would stop a new one."""
    for path in (place.server, place.sockets):
        make_private(path, account)
    pid = processes.postmaster(place.data)
    if pid is not None and not alone:
        raise EmbeddedError(
            f"the server (pid {pid}) runs but does not answer in {place.sockets}, and others use it"
        )
    if pid is not None:
        stop(place)
    processes.end_orphans(place.data)
    os.close(_take_lock(place))
    # Now nothing serves the data, whatever number the files hold: PostgreSQL itself would refuse
    # a truncated file, and a PID that by now belongs to somebody else.
    stale = [place.data / "postmaster.pid", *place.sockets.glob(".s.PGSQL.*")]
    for path in stale:
        path.unlink(missing_ok=True)
    if place.log.exists() and place.log.stat().st_size > LOG_BYTES:
        place.log.rename(place.log.with_suffix(".old"))


def _initialise(place: Place, account: Account, programs: Binaries) -> None:
    """initdb beside the final place, then rename: a killed one leaves no half-made data."""
    new = place.data.with_name("data.new")
    shutil.rmtree(new, ignore_errors=True)
    if place.data.exists():
        raise EmbeddedError(f"{place.data} is not data of PostgreSQL", hint="move it away")
    locale = ["--locale=C"]
    if programs.major >= 17:
        locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    fixed = ("-U", USER, "-A", "trust", "-E", "UTF8", "--data-checksums", *locale)
    initdb = programs.path / "initdb"
    code, output = account.run(initdb, "-D", new, *fixed, env=_environment())
    if code:
        shutil.rmtree(new, ignore_errors=True)
        _fail(f"initdb: {_reason(output)}", place, account)
    new.rename(place.data)


def _start(place: Place, account: Account, programs: Binaries) -> None:
    """By pg_ctl, which leaves the server in a session of its own without us as its parent."""
    settings = {**SETTINGS, "unix_socket_directories": str(place.sockets)}
    options = " ".join(shlex.quote(f"--{name}={value}") for name, value in settings.items())
    arguments = ("start", "-s", "-w", "-t", str(round(CALL_SECONDS)), "-o", options)
    # PGDATA, not -D: pg_ctl puts the argument of -D into a shell command between double quotes.
    env = _environment() | {"PGDATA": str(place.data)}
    pg_ctl = programs.path / "pg_ctl"
    lock, log = _take_lock(place), open_file(place.log)
    try:
        before = os.fstat(log).st_size
        code, _ = account.run(pg_ctl, *arguments, env=env, log=log, inherit=(lock,))
        if code or not alive(place):
            output = os.pread(log, LOG_BYTES, before).decode(errors="replace")
            _fail(_reason(output), place, account)
    finally:
        os.close(lock)
        os.close(log)


def _take_lock(place: Place, patience_seconds: float = 1.0) -> int:
    """The lock that every process of a server inherits: held while one of them lives.

    It sees what /proc does not: a server in another PID namespace that shares this home, and one
    that is just being started by somebody who was killed. Without it such data would get a second
    server, which destroys it. The kernel frees it a moment after the process is gone from /proc.
    """
    lock = open_file(place.server / "lock")
    end = time.monotonic() + patience_seconds
    while not try_exclusive(lock):
        if time.monotonic() > end:
            os.close(lock)
            raise EmbeddedError(f"a server that cannot be reached from here uses {place.data}")
        time.sleep(0.01)
    return lock


def _about_to_run(place: Place) -> bool:
    """Whether a server that holds its lock but shows no process yet comes to answer."""
    end = time.monotonic() + START_SECONDS
    while place.server.exists() and not processes.serving(place.data) and time.monotonic() < end:
        try:
            os.close(_take_lock(place, patience_seconds=0.1))
            return False
        except EmbeddedError:
            continue
    return alive(place)


def _make_database(place: Place) -> None:
    """At every start, not only at the first: a kill may have come between initdb and here."""
    try:
        with psycopg.connect(place.url("postgres"), autocommit=True) as conn:
            query = "select from pg_database where datname = %s"
            if conn.execute(query, [DATABASE]).fetchone() is None:
                conn.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
    except psycopg.Error as error:
        raise EmbeddedError(f"the server answers, but: {error}".strip()) from error


def _environment() -> dict[str, str]:
    """Nothing of the caller's PG*, LC_* or secrets; TZ and locale come from the settings."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {"LC_ALL": "C"}


def _reason(output: str) -> str:
    """The line that tells why: the first after which nothing went on, without its time stamp."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if re.search("FATAL:|PANIC:|error:", line)]
    reason = (telling or lines or ["no output"])[0]
    if reason.endswith("contains errors"):  # in postgresql.conf: which, tells the line before
        reason = lines[max(lines.index(reason) - 1, 0)]
    return re.sub(r"^.*?(LOG|FATAL|PANIC|error):\s+", "", reason)


def _fail(reason: str, place: Place, account: Account) -> None:
    hint = f"see {place.log}" if place.log.exists() else None
    if "ermission denied" in reason and not account.is_caller:
        hint = account.where_it_may_go
    raise EmbeddedError(f"PostgreSQL did not start: {reason}", hint=hint)
