"""What `scripts/picture` runs: a fleet on a terminal of its own, looked at for half a minute."""

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

import psycopg

from runner.embedded import Embedded
from runner.store import schema

COLUMNS, LINES = 104, 34
SECONDS = 20  # until what takes longest has something to show
TASKS = """
import random, time
import runner

tasks = runner.Registry()

@tasks.task
def resize_photo(tx, task):
    time.sleep(random.uniform(0.01, 0.08))

@tasks.task(max_attempts=3)
def send_invoice(tx, task):
    time.sleep(0.02)
    raise ConnectionError("smtp.example.com:587 refused the connection")

@tasks.task(timeout=600)
def import_feed(tx, task):
    for row in range(task.params["rows"]):
        task.progress(row, task.params["rows"])
        if row % 100 == 0:
            print(f"{row} rows read")
        time.sleep(0.05)

@tasks.task(timeout=25, max_attempts=2)
def sync_crm(tx, task):
    time.sleep(1000)
"""
QUEUE = """
insert into runner.task (task_type) select 'resize_photo' from generate_series(1, 6000);
insert into runner.task (task_type) select 'send_invoice' from generate_series(1, 4);
insert into runner.task (task_type, params) values
    ('import_feed', '{"rows": 700}'), ('import_feed', '{"rows": 2000}'), ('sync_crm', '{}');
insert into runner.task (task_type) select 'print_label' from generate_series(1, 12);
insert into runner.task (task_type, run_at)
    select 'resize_photo', now() + interval '1 hour' from generate_series(1, 40);
"""


def main(path: Path) -> None:
    """Run the fleet, kill a worker, and have the view save itself."""
    home = Path(tempfile.mkdtemp(prefix="runner-picture-"))
    home.chmod(0o755)  # as root another user runs the server
    try:
        (home / "tasks.py").write_text(TASKS)
        with (
            Embedded.open(home / "server") as server,
            psycopg.connect(server.url, autocommit=True) as conn,
        ):
            schema.install(conn)
            conn.execute(QUEUE)
            watch(home, server.url, conn)
        (made,) = home.glob("runner-*.svg")
        shutil.copyfile(made, path)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def watch(home: Path, url: str, conn: "psycopg.Connection[tuple[object, ...]]") -> None:
    """A person at the terminal: looks on, sees a worker die, saves the picture, stops the fleet."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(home)
        ours = {"DATABASE_URL": url, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        command = [sys.executable, "-m", "runner", "start", "--procs", "8", "--console"]
        os.execve(command[0], command, os.environ | ours)  # noqa: S606 - no shell is wanted
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    read(terminal, SECONDS)
    busy = "select pid from runner.worker w join runner.task t on t.lease_owner = w.worker_id"
    row = conn.execute(f"{busy} where t.task_type = 'import_feed' order by t.task_id").fetchone()
    assert row is not None
    os.kill(int(str(row[0])), signal.SIGKILL)
    read(terminal, 2.5)
    os.write(terminal, b"s")
    read(terminal, 2.0)
    os.write(terminal, b"q")
    read(terminal, 1.0)
    os.write(terminal, b"y")
    read(terminal, 1.0)
    os.kill(pid, signal.SIGTERM)  # once more: at once
    read(terminal, 60.0)
    os.waitpid(pid, 0)


def read(terminal: int, seconds: float) -> None:
    """Read on, as a terminal does, so that nobody is held up."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                os.read(terminal, 65536)
            except OSError:  # nobody has it open any more
                return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
