"""Handlers of the cases: what people have done to batch runners, beside the chores of `tests.apps`."""

import asyncio
import os
import signal
import sys
import threading
import time

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
    os.kill(os.getpid(), signal.Signals[task.params["by"]])
    time.sleep(10)


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
            time.sleep(task.params["seconds"])
        tx.execute(EFFECT, [task.id, task.attempt])
