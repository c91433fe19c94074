"""Handlers with habits: what they leave in their process, print, start or raise.

Each is about one case; what it saw goes into the table `seen`, in its own transaction.
"""

import contextlib
import ctypes
import logging
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from queue import Queue

from psycopg.types.json import Jsonb

from tests.apps.chores import EFFECT, note, tasks

SEEN = "create table seen (task_id bigint, what jsonb)"
IMPORTED_BY = os.getpid()
_CHANCE = random.Random()
# Bits of the signals that a program may expect to be asked with, as in /proc/self/status.
_ASKING = sum(1 << number - 1 for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE))


def see(tx, task, what):
    tx.execute("insert into seen values (%s, %s)", [task.id, Jsonb(what)])


# -- what they are given, and what they raise --------------------------------------------------------


@tasks.task
def keeps(tx, task):
    """Writes down its params as they came."""
    note("start", task)
    see(tx, task, task.params)


@tasks.task
def fails(tx, task):
    """Raises an error with an odd or a huge text."""
    tx.execute(EFFECT, [task.id, task.attempt])
    match task.params["how"]:
        case "surrogate":
            raise RuntimeError("name \udce9 of " + os.fsdecode(b"caf\xe9"))
        case "huge":
            raise RuntimeError("x" * 50_000_000)
        case "wide":
            raise RuntimeError("\u20ac\U0001f600" * 200_000)
        case "deep":
            _deep(64)


def _deep(depth):
    """An error whose traceback has 64 kB or so."""
    if depth == 0:
        raise RuntimeError("at the bottom " + "y" * 1000)
    try:
        _deep(depth - 1)
    except RuntimeError as error:
        raise RuntimeError("z" * 1000) from error


@tasks.task(max_attempts=1)
def gives_away(tx, task):
    """Says the database's URL wherever it can."""
    url = os.environ["DATABASE_URL"]
    print(f"connecting to {url}")
    task.log.warning(f"trying {url} again")
    os.write(1, f"from C: {url}\n".encode())
    raise RuntimeError(f"could not reach {url}")


# -- what they leave behind ----------------------------------------------------------------------------


@tasks.task
def wanders(tx, task):
    """Leaves its process in a directory that is no more."""
    place = tempfile.mkdtemp()
    os.chdir(place)
    shutil.rmtree(place)
    tx.execute(EFFECT, [task.id, task.attempt])


@tasks.task
def looks_around(tx, task):
    """Where it is, and what it finds there by a relative name."""
    with open("landmark") as landmark:
        see(tx, task, {"cwd": os.getcwd(), "landmark": landmark.read()})


@tasks.task
def deaf(tx, task):
    """Leaves signals ignored, blocked, or about to come."""
    tx.execute(EFFECT, [task.id, task.attempt])
    match task.params["how"]:
        case "ignores":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "blocks":
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
        case "alarm":
            signal.alarm(1)


@tasks.task
def hears(tx, task):
    """What its process does about signals, over more than a left-over alarm; and a program's of it."""
    time.sleep(task.params.get("seconds", 0))
    shown = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
    sets = dict(line.split(":\t") for line in shown.splitlines() if line.startswith("Sig"))
    program = {name: int(sets[name], 16) & _ASKING for name in ("SigIgn", "SigBlk")}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    ignored = signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    tx.execute(EFFECT, [task.id, task.attempt])
    see(tx, task, {"blocked": len(blocked), "ignored": ignored, "program": program})


@tasks.task
def logs(tx, task):
    """Its first act is to log."""
    logging.getLogger("habits").warning("through logging's last resort")
    task.log.info(f"hello from {task.id}")
    note("start", task)
    tx.execute(EFFECT, [task.id, task.attempt])


# -- what they start ----------------------------------------------------------------------------------


@tasks.task(max_attempts=1)
def pools(tx, task):
    """Works with processes of its own, or hangs in them."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        see(tx, task, pool.map(abs, [-1, -2]))
        if task.params.get("hang"):
            note("hangs", task)
            pool.map(time.sleep, [1000, 1000])
    tx.execute(EFFECT, [task.id, task.attempt])


@tasks.task
def abandons(tx, task):
    """A program of a program, whose parent is gone at once, and which ends with 3 a little later."""
    subprocess.run(["sh", "-c", "(sleep 0.2; exit 3) & exit 0"], check=True)
    tx.execute(EFFECT, [task.id, task.attempt])


# -- what is drawn, and by whom it was imported ------------------------------------------------------

_requests: Queue[int] = Queue()
_answers: Queue[int] = Queue()


def _answer():
    while True:
        _answers.put(_requests.get() + 1)


threading.Thread(target=_answer, daemon=True).start()


@tasks.task
def asks_its_thread(tx, task):
    """Uses the thread that the import has started."""
    _requests.put(task.id)
    answer = _answers.get(timeout=10)
    see(tx, task, {"answer": answer - task.id, "imported": IMPORTED_BY, "pid": os.getpid()})
    time.sleep(task.params.get("seconds", 0))


@tasks.task
def draws(tx, task):
    """Chance from the module's own generator and from Python's."""
    first = [_CHANCE.random(), random.random()]
    see(tx, task, {"pid": os.getpid(), "drawn": first})
    time.sleep(task.params.get("seconds", 0))


# -- what they print ----------------------------------------------------------------------------------


@tasks.task
def talks(tx, task):
    """Prints by every way there is, with what a terminal would act on."""
    for number in range(task.params.get("lines", 1000)):
        print(f"line {number} of {task.id}")
    os.write(1, b"raw bytes \xff\n")
    subprocess.run(["printf", "from a program\\n"], check=True)
    ctypes.CDLL(None).puts(b"from C")
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).fflush(None)
    print("\x1b[2J\x1b]0;title\x07over\rwritten")
    print("x" * 100_000)
    print("no end of line", end="")
    tx.execute(EFFECT, [task.id, task.attempt])


def _says_its_name(tx, task):
    print(f"{task.type} says so")
    tx.execute(EFFECT, [task.id, task.attempt])


for _name in ("привет", "🎉 fête", "日本語"):
    tasks.task(_name)(_says_its_name)
