"""Fleets under measurement: `runner start` as a process, and what fills their queue."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import procfs, witness
from bench.interrupts import deferred
from bench.stage import Connection, Stage, connect

ROOT = Path(__file__).parent.parent
PROCS = 4
OPTIONS = ("-q",)  # a line of log for each done task is a choice that the measurement does not make
READY_SECONDS, STOP_SECONDS = 60.0, 40.0


class BenchError(Exception):
    """The measurement cannot be made."""


@dataclass
class Fleet:
    """A running fleet, or the process of a floor; its database and what its handlers see."""

    name: str
    process: subprocess.Popen[bytes]
    conn: Connection
    witness: witness.Witness
    log: Path

    def pids(self) -> list[int]:
        """All its processes."""
        return procfs.family(self.process.pid)

    def worker_pids(self) -> dict[int, int]:
        """Slot to pid of those that are registered."""
        query = "select slot, pid from runner.worker where role = 'worker'"
        return dict(self.conn.execute(query).fetchall())

    def check(self) -> None:
        """BenchError with what it said when it has ended."""
        if self.process.poll() is not None:
            raise self.failure(f"the {self.name} ended with {self.process.returncode}")

    def failure(self, what: str) -> BenchError:
        """What went wrong, and what the fleet said last."""
        told = self.log.read_text("utf-8", "replace").strip().splitlines()[-5:]
        return BenchError(": ".join([what, " / ".join(told)]) if told else what)

    def wait(self, fact: Callable[[], bool], seconds: float, pause: float = 0.01) -> bool:
        """Until something is so; False when it is not within `seconds`."""
        end = time.monotonic() + seconds
        while not fact():
            self.check()
            if time.monotonic() > end:
                return False
            time.sleep(pause)
        return True

    def wait_idle(self, count: int) -> None:
        """Until so many workers are there, nothing waits, and enqueuers are told of idle ones."""
        there = self.wait(lambda: len(self.worker_pids()) >= count, READY_SECONDS)
        idle = "select coalesce(bool_or(idle), false) from runner.runner"
        if not (there and self.wait(lambda: self._true(idle), READY_SECONDS)):
            raise self.failure("the fleet did not get ready")
        time.sleep(0.5)  # its second looks after idling began

    def _true(self, query: str) -> bool:
        row = self.conn.execute(query).fetchone()
        return bool(row and row[0])


def fleet(
    place: Stage, url: str, *options: str, procs: int = PROCS, own_url: str | None = None
) -> AbstractContextManager[Fleet]:
    """A fleet on a database, stopped at the end. `own_url`: what it is given instead of `url`."""
    command = _command("start", "--procs", str(procs), *OPTIONS, *options)
    return running(place, url, "fleet", command, own_url)


@contextmanager
def running(
    place: Stage, url: str, name: str, command: list[str], own_url: str | None = None
) -> Iterator[Fleet]:
    """Whatever takes tasks from a database and tells the witness, stopped at the end."""
    directory = _new_directory(place, name.replace(" ", "-"))
    seen = witness.Witness(directory)
    log = directory.with_suffix(".log")
    env = environment({"DATABASE_URL": own_url or url, witness.VARIABLE: str(directory)})
    process: subprocess.Popen[bytes] | None = None
    try:
        with connect(url) as conn:
            with deferred(), log.open("wb") as out:
                # A session of its own: Ctrl-C on a terminal is the bench's, which stops the fleet.
                process = subprocess.Popen(
                    command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                    start_new_session=True,
                )  # fmt: skip
            yield Fleet(name, process, conn, seen, log)
    finally:
        if process is not None:
            _stop(process)
        seen.close()


def drain_seconds(url: str) -> float:
    """Wall time of `runner drain`, from the exec to its end."""
    began = time.monotonic()
    done = subprocess.run(
        _command("drain"), env=environment({"DATABASE_URL": url}), check=False,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=READY_SECONDS,
    )  # fmt: skip
    seconds = time.monotonic() - began
    if done.returncode:
        raise BenchError(f"drain ended with {done.returncode}: {done.stderr.strip()}")
    return seconds


def fill(conn: Connection, tasks: Mapping[str, int], *, clear: bool = True) -> None:
    """Make these tasks wait, by type; tables are as after a vacuum, and no checkpoint is near.

    The checkpoint comes first, so that the pages have had their full images written to the WAL by the
    time of the measurement, and the next one is as far away as can be. What the system has still to
    write of a million rows is written before it begins. Floors do the same.
    """
    if clear:
        conn.execute("truncate runner.task, bench.effect")
    checkpoint(conn)
    for task_type, count in tasks.items():
        conn.execute(
            "insert into runner.task (task_type) select %s from generate_series(1, %s)",
            [task_type, count],
        )
    conn.execute("vacuum (analyze) runner.task")
    os.sync()


def checkpoint(conn: Connection) -> None:
    """Where we may."""
    allowed = conn.execute("select rolsuper from pg_roles where rolname = current_user").fetchone()
    if allowed and allowed[0]:
        conn.execute("checkpoint")


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Nothing of the caller's settings."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {"PYTHONPATH": str(ROOT)} | dict(more)


def _command(verb: str, *options: str) -> list[str]:
    app = ("-A", "bench.handlers", "--app-dir", str(ROOT))
    return [sys.executable, "-m", "runner", verb, *app, *options]


def _new_directory(place: Stage, name: str) -> Path:
    number = sum(1 for each in place.directory.iterdir() if each.name.startswith(f"{name}-"))
    return place.directory / f"{name}-{number}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Gracefully; what does not go is killed, and its workers go with it."""
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(number)
        try:
            process.wait(STOP_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue
