"""A bare listener, the floor of latency: the least that hears of a task, claims it and starts it.

One process with a session that LISTENs and one that claims. No lease, no parent, no choice between
kinds, and a plain DELETE afterwards; but the claim is committed before the start, as ours is.

Arguments: the PID of the bench
"""

import os
import select
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

from psycopg import sql

from bench import witness
from bench.fleet import Fleet, running
from bench.floor import SCRIPTS
from bench.stage import Connection, Stage, connect

NAME = "bare listener"
INSERT = "insert into bench.bare (params) values ('{\"tell\": true}') returning task_id"
DELETE = "delete from bench.bare where task_id = %s"
COMMAND = (sys.executable, "-m", "bench.listener")
LOOK_SECONDS = 1.0  # whether the bench is still there


def listener(place: Stage, url: str) -> AbstractContextManager[Fleet]:
    """One on a database, with a table of its own there; ended at the end."""
    with connect(url) as conn:
        conn.execute(_script("listener_table.sql"))
    return running(place, url, NAME, [*COMMAND, str(os.getpid())])


def put(conn: Connection) -> int | None:
    """Enqueue a task for it; the caller commits."""
    row = conn.execute(INSERT, prepare=True).fetchone()
    conn.execute("notify bench_bare", prepare=True)
    return row[0] if row else None


def listen(url: str, seen: witness.Counter, bench_pid: int) -> None:
    """Until the bench ends it, or is gone."""
    claim = _script("listener_claim.sql")
    with connect(url) as ears, connect(url) as hands, hands.cursor() as cursor:
        ears.execute("listen bench_bare")
        while os.getppid() == bench_pid:
            row = cursor.execute(claim, prepare=True).fetchone()
            if row is None:
                _wait(ears)
                continue
            seen.started(row[0], time.clock_gettime_ns(time.CLOCK_MONOTONIC))
            cursor.execute(DELETE, [row[0]], prepare=True)


def _wait(ears: Connection) -> None:
    select.select([ears.fileno()], [], [], LOOK_SECONDS)
    ears.pgconn.consume_input()
    while ears.pgconn.notifies():
        pass


def _script(name: str) -> sql.SQL:
    return sql.SQL((SCRIPTS / name).read_text())


if __name__ == "__main__":
    counter = witness.Counter(Path(os.environ[witness.VARIABLE]))
    listen(os.environ["DATABASE_URL"], counter, int(sys.argv[1]))
