"""Real fleets for tests: the command as a process, and what the witnesses of `tests.apps.chores` saw."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from chaos import witnesses
from tests.logins import as_chosen
from tests.servers import gone, wait_until
from tests.terminals import Pty

ROOT = Path(__file__).parent.parent
QUICK = ("--lease", "5s", "--renew", "1s", "--grace", "3s", "--poll", "1s", "--backoff", "200ms:1s")


@dataclass
class Fleet:
    """A running command, and where its witnesses write."""

    process: subprocess.Popen[bytes]
    directory: Path
    log_path: Path
    terminal: Pty | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        """What it has said, to its terminal if it has one."""
        if self.terminal is not None:
            self.terminal.pump()
            return self.terminal.sent.decode("utf-8", "replace")
        return self.log_path.read_text("utf-8", "replace")

    def stop(self, number: signal.Signals = signal.SIGTERM, timeout: float = 20) -> int:
        """Send the signal, and wait for the end; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout)


class Work:
    """The queue of a test as it is in the database, and the witnesses' files."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.directory = directory
        self.conn = psycopg.connect(url, autocommit=True)
        witnesses.prepare(url)

    def add(self, task_type: str, count: int = 1, **params: Any) -> list[int]:
        """Enqueue tasks by a plain INSERT; their ids."""
        rows = self.conn.execute(
            "insert into runner.task (task_type, params)"
            " select %s, %s from generate_series(1, %s) returning task_id",
            [task_type, Jsonb(params), count],
        ).fetchall()
        return [row[0] for row in rows]

    def states(self) -> Counter[str]:
        return Counter(
            dict(self.conn.execute("select state, count(*) from runner.task group by 1").fetchall())
        )

    def row(self, task_id: int) -> dict[str, Any] | None:
        with self.conn.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            query = "select * from runner.task where task_id = %s"
            return cursor.execute(query, [task_id]).fetchone()

    def causes(self) -> Counter[tuple[str, str, int]]:
        """How many tasks of a type are dead of a cause after so many attempts."""
        query = """select task_type, cause, attempt, count(*) from runner.task
                   where state = 'dead' group by 1, 2, 3"""
        return Counter({tuple(row[:3]): row[3] for row in self.conn.execute(query)})

    def effects(self) -> Counter[int]:
        query = "select task_id, count(*) from effect group by 1"
        return Counter(dict(self.conn.execute(query).fetchall()))

    def exactly_once(self, ids: Sequence[int]) -> None:
        """Every one of these has one effect, and nothing else has any."""
        effects = self.effects()
        assert set(effects) == set(ids), f"{len(ids)} tasks, {len(effects)} with effects"
        doubled = {task: count for task, count in effects.items() if count > 1}
        assert not doubled, f"doubled: {doubled}"

    def noted(self, word: str) -> list[list[str]]:
        """The lines of the witnesses' log that begin with a word."""
        path = self.directory / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [fields for line in lines if (fields := line.split())[0] == word]

    def workers(self) -> dict[int, int]:
        """Slot to pid of the registered workers."""
        query = "select slot, pid from runner.worker where role = 'worker'"
        return dict(self.conn.execute(query).fetchall())

    def running(self) -> int:
        query = "select count(*) from runner.task where state = 'running'"
        return self.conn.execute(query).fetchone()[0]  # type: ignore[index]

    def empty(self) -> bool:
        return not self.states()

    def only_dead(self) -> bool:
        return set(self.states()) <= {"dead"}


@contextmanager
def work(url: str, directory: Path) -> Iterator[Work]:
    """The queue of a fresh database."""
    one = Work(url, directory)
    try:
        yield one
    finally:
        one.conn.close()


def environment(directory: Path, **extra: str) -> dict[str, str]:
    """What a command of a test sees: nothing of the caller's settings."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return kept | {"LANG": "C.UTF-8", "CHORES_DIR": str(directory), "PYTHONPATH": str(ROOT)} | extra


@contextmanager
def running(
    url: str,
    directory: Path,
    *options: str,
    procs: int = 4,
    verb: str = "start",
    app: str = "tests.apps.chores",
    under: Sequence[str] = (),
    on: Pty | None = None,
    **extra: str,
) -> Iterator[Fleet]:
    """The command at work; killed at the end if it is still there. `extra` is for its environment;
    `under`: a command that runs it; `on`: its terminal."""
    number = len(list(directory.glob("stderr.*")))
    log_path = directory / f"stderr.{number}"
    command = [*under, sys.executable, "-m", "runner", verb, "--procs", str(procs), "-A"]
    command += [app, "--app-dir", str(ROOT), *QUICK, *options]
    env = environment(directory, DATABASE_URL=as_chosen(url), **extra)
    if on is not None:
        process = on.start(command, directory, env)
    else:
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory
            )
    fleet = Fleet(process, directory, log_path, on)
    try:
        yield fleet
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop a command that is still there; kill it when it does not."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_registered(queue: Work, count: int) -> dict[int, int]:
    """Until so many workers have a row; slot to pid."""

    def enough() -> dict[int, int]:
        # One look: of a worker that takes another identity the row is gone for a moment.
        found = queue.workers()
        return found if len(found) >= count else {}

    return wait_until(enough, 20, f"{count} workers registered")


def all_gone(pids: Sequence[int]) -> bool:
    return all(gone(pid) for pid in pids)


AS_PROCESS_1 = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")


def need_process_1() -> None:
    """Skip where nobody can be made process 1: by who is not root, or below a changed root."""
    try:
        subprocess.run([*AS_PROCESS_1, "true"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no name space of processes can be made here")
