"""Handlers that behave well and badly, each watched by witnesses with no code of the runner in them.

W1: a flock per task id; a second live handler of the same task cannot take it. W2: a log opened with
O_APPEND. W3: the table `effect`, without a unique key, written in the handler's transaction. Where they
are is said by CHORES_DIR.
"""

import ctypes
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

import runner.registry
from runner.errors import Discard, Retry, Snooze

tasks = runner.registry.Registry()
EFFECT = "insert into effect (task_id, attempt) values (%s, %s)"


def _directory() -> Path:
    return Path(os.environ["CHORES_DIR"])


def note(word, task):
    """One line in the log of the witnesses."""
    line = f"{word} {task.id} {task.attempt} {task.fence} {os.getpid()} {time.monotonic():.3f}\n"
    log = os.open(_directory() / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, line.encode())
    os.close(log)


@contextmanager
def alone(task) -> Iterator[None]:
    """Hold the task's flock; an overlap is noted, and goes on."""
    lock = os.open(_directory() / f"lock.{task.id}", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("overlap", task)
    note("start", task)
    try:
        yield
    finally:
        os.close(lock)


@tasks.task
def ordinary(tx, task):
    with alone(task):
        tx.execute(EFFECT, [task.id, task.attempt])


@tasks.task
def noop(tx, task):
    pass


@tasks.task
def slow(tx, task):
    """Effect first, then `seconds` with the transaction open."""
    with alone(task):
        tx.execute(EFFECT, [task.id, task.attempt])
        end = time.monotonic() + task.params["seconds"]
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))


@tasks.task
def sleepy(tx, task):
    """Only sleeps, and writes its effect at the end."""
    with alone(task):
        time.sleep(task.params["seconds"])
        tx.execute(EFFECT, [task.id, task.attempt])


@tasks.task(max_attempts=3)
def boom(tx, task):
    tx.execute(EFFECT, [task.id, task.attempt])
    raise ValueError("boom")


@tasks.task(max_attempts=3)
def wavers(tx, task):
    """Fails once."""
    with alone(task):
        tx.execute(EFFECT, [task.id, task.attempt])
        if task.attempt == 1:
            raise ValueError("not yet")


@tasks.task(max_attempts=3)
def selfkill(tx, task):
    tx.execute(EFFECT, [task.id, task.attempt])
    os.kill(os.getpid(), signal.SIGKILL)


@tasks.task(max_attempts=2)
def segfault(tx, task):
    ctypes.string_at(0)


@tasks.task(max_attempts=2)
def aborts(tx, task):
    os.abort()


@tasks.task(max_attempts=2)
def exits(tx, task):
    os._exit(0)


@tasks.task(max_attempts=2, timeout=1)
def hang(tx, task):
    time.sleep(1000)


@tasks.task(max_attempts=2)
def stubborn(tx, task):
    """Ignores TERM, and everything that can be ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with alone(task):
        time.sleep(task.params.get("seconds", 1000))


@tasks.task(max_attempts=2)
def in_c(tx, task):
    """Holds the GIL in C for a minute or so."""
    with alone(task):
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 10**9)


@tasks.task
def programs(tx, task):
    """Leaves programs behind: one in the group, one from a shell, one in a session of its own."""
    shell = "sleep 300 & sleep 300"
    children = [
        subprocess.Popen(["sleep", "300"]),
        subprocess.Popen(["sh", "-c", shell]),
        subprocess.Popen(["sleep", "300"], start_new_session=True),
    ]
    (_directory() / "programs").write_text(" ".join(str(child.pid) for child in children))
    time.sleep(task.params.get("seconds", 0))
    for child in children:
        child.returncode = 0  # nobody waits for them: that is what this is about


@tasks.task
def family(tx, task):
    """Enqueues children until `depth` is used up."""
    tx.execute(EFFECT, [task.id, task.attempt])
    for _ in range(task.params["width"] if task.params["depth"] else 0):
        tx.execute(
            "insert into runner.task (task_type, params)"
            " values ('family', jsonb_build_object('depth', %s::int, 'width', %s::int))",
            [task.params["depth"] - 1, task.params["width"]],
        )


@tasks.task
def serializable(tx, task):
    """Longer than the renewal period, at the strictest isolation."""
    tx.execute("set transaction isolation level serializable")
    with alone(task):
        tx.execute(EFFECT, [task.id, task.attempt])
        time.sleep(task.params["seconds"])
        tx.execute("select count(*) from effect where task_id = %s", [task.id])


@tasks.task
def prints(tx, task):
    print(f"hello from {task.id}")
    print("and to stderr", file=sys.stderr)


@tasks.task(max_attempts=1)
def says(tx, task):
    """Whatever it is given, in every way there is, and fails with it."""
    text = task.params["text"]
    print(text)
    sys.stderr.buffer.write(text.encode("utf-8", "surrogatepass") + b"\n")
    sys.stderr.buffer.flush()
    task.log.warning("%s", text)
    raise ValueError(text)


@tasks.task
def chatty(tx, task):
    """More lines than fit into the pipe of the log."""
    for number in range(6000):
        print(f"{number} " + "x" * 300)


@tasks.task(max_attempts=2)
def chooses(tx, task):
    """Ends as its params say."""
    match task.params["how"]:
        case "retry":
            raise Retry(delay=task.params.get("delay", 0))
        case "snooze":
            raise Snooze(task.params.get("delay", 0))
        case "discard":
            raise Discard("no use")
        case "exit":
            sys.exit(task.params.get("code", 0))


@tasks.task(max_attempts=3)
def counted(tx, task):
    """Touches nothing but the witnesses' log; the first attempt of some kills its process."""
    note("start", task)
    if task.params.get("kill") and task.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if seconds := task.params.get("seconds"):
        time.sleep(seconds)


@tasks.task(group=True, max_attempts=2)
def grouped(tx, task):
    """Writes, and then raises, kills its process, or breaks the group at its COMMIT."""
    note("start", task)
    tx.execute(EFFECT, [task.id, task.attempt])
    match task.params.get("how"):
        case "raise":
            raise ValueError("one of the group")
        case "commit":
            tx.execute("select 1; commit")
        case "kill" if task.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        case "late":
            tx.execute("insert into late (task_id) values (0)")


@tasks.task
def holds_the_gil(tx, task):
    """Nothing of Python runs beside this, the thread that hears of extensions neither."""
    sum(range(10**9))


@tasks.task(max_attempts=1)
def mixed(tx, task):
    """One statement or several or none, at the isolation of its own choice."""
    how = task.params["how"]
    if how == "nothing":
        return
    if how == "attribute":
        tx.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    if how == "serializable":
        tx.execute("set transaction isolation level serializable")
    tx.execute(EFFECT, [task.id, task.attempt])
    (level,) = tx.execute("show transaction_isolation").fetchone()
    strict = how in ("attribute", "serializable")
    assert level == ("serializable" if strict else "read committed"), level
    if how == "fail":
        raise ValueError("after its effect")


_kept = []


@tasks.task
def leaks(tx, task):
    """Keeps eight megabytes, or as many as it is told, for good."""
    for _ in range(task.params.get("megabytes", 8)):
        _kept.append(bytearray(os.urandom(1 << 20)))
    tx.execute(EFFECT, [task.id, task.attempt])


@tasks.task
def environ(tx, task):
    """What a program that a handler starts has in its environment."""
    with (_directory() / "environ").open("wb") as file:
        subprocess.run(["env"], stdout=file, check=True)


@tasks.task
def orphans(tx, task):
    """Leaves a program whose parent is gone at once."""
    subprocess.run(["sh", "-c", "sleep 0.2 & exit 0"], check=True)


@tasks.task(max_attempts=2)
def writes(tx, task):
    """Kills its process before or after its effect, at its first attempt, or fails at its COMMIT."""
    how = task.params.get("how")
    note("start", task)
    if how == "before" and task.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    tx.execute(EFFECT, [task.id, task.attempt])
    if how == "after" and task.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "late":
        tx.execute("insert into late (task_id) values (0)")
