"""What the fleets of a campaign run, each handler watched by witnesses with no code of ours in them.

W1, a lock on the task's byte of one file: a second live handler of the task does not get it; the
kernel frees it with the process. W2, a log opened with O_APPEND. W3, the table `effect`, without a
unique key, written in the handler's transaction. Where the files are is said by CHAOS_DIR.
"""

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import runner

tasks = runner.Registry()
EFFECT = "insert into effect (task_id, attempt) values (%s, %s)"
SHORT_NAP = 0.05

_directory = Path(os.environ["CHAOS_DIR"])
_log = os.open(_directory / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_locks = os.open(_directory / "locks", os.O_RDWR | os.O_CREAT)


def since_boot():
    """In seconds; a faked clock has no time since boot, but the next best."""
    try:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    except OSError:
        return time.monotonic()


def note(word, task, *more):
    """One line in the log: word, task, attempt, fence, pid, seconds since boot."""
    at = since_boot()
    fields = (word, task.id, task.attempt, task.fence, os.getpid(), f"{at:.3f}", *more)
    os.write(_log, (" ".join(map(str, fields)) + "\n").encode())


@contextmanager
def watched(task) -> Iterator[None]:
    """Hold the task's lock; an overlap is noted, and goes on."""
    try:
        fcntl.lockf(_locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, task.id)
    except OSError:
        note("overlap", task)
    note("start", task)
    try:
        yield
        note("end", task)
    finally:
        fcntl.lockf(_locks, fcntl.LOCK_UN, 1, task.id)


def nap(seconds):
    """Sleep in pieces, as work does that Python sees."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, SHORT_NAP))


@tasks.task(max_attempts=50)
def quick(tx, task):
    """One effect."""
    with watched(task):
        tx.execute(EFFECT, [task.id, task.attempt])


@tasks.task(max_attempts=50)
def slow(tx, task):
    """The effect first, then `seconds` with the transaction open."""
    with watched(task):
        tx.execute(EFFECT, [task.id, task.attempt])
        nap(task.params["seconds"])


@tasks.task(max_attempts=50)
def late(tx, task):
    """Outside of any transaction for `seconds`, and the effect at the end."""
    with watched(task):
        nap(task.params["seconds"])
        tx.execute(EFFECT, [task.id, task.attempt])


@tasks.task(max_attempts=50)
def outside(tx, task):
    """Never touches the database: its deletion may travel with others'. Seen in the log only."""
    with watched(task):
        nap(0.002)


@tasks.task(max_attempts=50, group=True)
def grouped(tx, task):
    """Shares a transaction with others."""
    with watched(task):
        tx.execute(EFFECT, [task.id, task.attempt])


@tasks.task(max_attempts=50)
def program(tx, task):
    """Leaves a program behind."""
    with watched(task):
        child = subprocess.Popen(["sleep", "600"])
        child.returncode = 0  # nobody waits for it: that is what this is about
        note("program", task, child.pid)
        tx.execute(EFFECT, [task.id, task.attempt])
