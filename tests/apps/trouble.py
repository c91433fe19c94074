"""Handlers of the cases: what people have done to batch runners, beside the chores of `tests.apps`."""

import asyncio
import ctypes
import hashlib
import os
import signal
import sys
import threading
import time

import runner
from tests.apps.chores import EFFECT, alone, note, tasks

__all__ = ["tasks"]


class Mine(BaseException):
    """Not an Exception, and nobody's but the app's."""


class TwoArguments(Exception):
    """Can be pickled, and not be loaded again."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def __str__(self):
        return f"{self.first} and {self.second}"


class HoldsALock(Exception):
    """Cannot be pickled."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def _local_class():
    class Local(Exception):
        pass

    return Local


ERRORS = {
    "exit": lambda: SystemExit(),
    "exit 0": lambda: SystemExit(0),
    "exit text": lambda: SystemExit("text"),
    "exit 3": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "generator": GeneratorExit,
    "cancelled": asyncio.CancelledError,
    "own": Mine,
    "two": lambda: TwoArguments("this", "that"),
    "lock": lambda: HoldsALock("holds a lock"),
    "local": lambda: _local_class()("of a local class"),
    "nul": lambda: ValueError("bad \x00 byte"),
}


@tasks.task(max_attempts=3)
def raises(tx, task):
    """Its effect, and then the exception that its params name; from a `finally` where they say so."""
    tx.execute(EFFECT, [task.id, task.attempt])
    how = task.params["how"]
    if how == "finally":
        try:
            raise KeyboardInterrupt
        finally:
            raise Mine("from a finally")
    if how.startswith("sys.exit"):
        sys.exit(*task.params["with"])
    task.log.info("about to raise \x00 %s", how)
    raise ERRORS[how]()


@tasks.task(max_attempts=3)
def dies(tx, task):
    """Killed by the signal of its params."""
    note("start", task)
    tx.execute(EFFECT, [task.id, task.attempt])
    match task.params["by"]:
        case "abort":
            os.abort()
        case "null":
            ctypes.string_at(0)
        case name:
            os.kill(os.getpid(), signal.Signals[name])
    time.sleep(10)


@tasks.task(max_attempts=2)
def eats(tx, task):
    """Memory, ten megabytes after the other, for ever."""
    note("start", task)
    tx.execute(EFFECT, [task.id, task.attempt])
    eaten = []
    while True:
        eaten.append(bytearray(b"x") * (10 << 20))


def _careless(tx, task):
    """An effect, and what people do to a transaction that is not theirs."""
    tx.execute(EFFECT, [task.id, task.attempt])
    match task.params["how"]:
        case "begin":
            tx.cursor().execute("begin")
        case "swallow":
            try:
                tx.execute("select 1 / 0")
            except Exception:
                pass
        case "swallow in a block":
            try:
                with tx.transaction():
                    tx.execute("select 1 / 0")
            except Exception:
                pass
        case "commit and raise":
            tx.execute("COMMIT")
            raise ValueError("after the commit")
        case "rollback":
            tx.execute("ROLLBACK")
        case "behind another":
            tx.execute("select 1; commit")
        case "close":
            tx.close()
        case "conn.commit":
            tx.commit()
        case "conn.rollback":
            tx.rollback()
        case "autocommit":
            tx.autocommit = True


tasks.task("careless", max_attempts=2)(_careless)
tasks.task("careless_group", group=True, max_attempts=2)(_careless)


@tasks.task
def again(tx, task):
    """Enqueues itself, for later, and then ends as its params say."""
    tx.execute(EFFECT, [task.id, task.attempt])
    new = runner.enqueue(tx, "again", task.params, unique=True, delay=600)
    assert new not in (None, task.id)
    if task.params["how"] == "raise":
        raise ValueError("after all")


@tasks.task
def for_ever(tx, task):
    """Enqueues the next one of itself."""
    tx.execute(EFFECT, [task.id, task.attempt])
    runner.enqueue(tx, "for_ever")


@tasks.task
def later(tx, task):
    """Of a type that `chores` alone does not know."""
    tx.execute(EFFECT, [task.id, task.attempt])


@tasks.task
def first_hangs(tx, task):
    """The first start of it takes `seconds`, any later one no time."""
    with alone(task):
        path = os.path.join(os.environ["CHORES_DIR"], f"once.{task.id}")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            if task.params.get("in_c"):
                hashlib.pbkdf2_hmac("sha256", b"x", b"y", 10**9)
            time.sleep(task.params["seconds"])
        tx.execute(EFFECT, [task.id, task.attempt])
