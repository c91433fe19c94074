"""What a task changed in its process is put back before the next one: run in a child of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import os, signal, sys, threading, time
from runner.handling import restore
from runner.handling.interrupts import Interrupts
interrupts = Interrupts()
interrupts.install()
state = restore.ProcessState()

def umask():
    return [line for line in open('/proc/self/status') if line.startswith('Umask')]

def shown():
    return [
        os.readlink('/proc/self/cwd'), umask(), dict(os.environ),
        signal.pthread_sigmask(signal.SIG_BLOCK, []),
        [signal.getsignal(n) for n in signal.valid_signals() if n not in (9, 19)],
        signal.getitimer(signal.ITIMER_REAL), signal.getitimer(signal.ITIMER_VIRTUAL),
        signal.getitimer(signal.ITIMER_PROF), sys.getrecursionlimit(), sys.stdout, sys.stderr, sys.stdin,
        time.strftime("%Z"),
    ]

before = shown()
TASK
assert shown() != before, "it left nothing: the test has no point"
if WAY == "long":
    state.restore(time.monotonic() - 1)
else:
    state.restore(time.monotonic())
    state.restore_all()
after = shown()
assert after == before, [(a, b) for a, b in zip(after, before) if a != b]
print("restored")
"""

TASKS = {
    "a directory": "os.chdir('/')",
    "a directory that is gone": "os.mkdir('x'); os.chdir('x'); os.rmdir('../x')",
    "umask": "os.umask(0o077)",
    "the environment": "os.environ['HOME'] = 'x'; os.environ.pop('PATH')",
    "the time zone": "os.environ['TZ'] = 'Asia/Tokyo'; time.tzset()",
    "an ignored signal": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "a handler": "signal.signal(signal.SIGUSR1, lambda *_: None)",
    "a blocked signal": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])",
    "an alarm": "signal.alarm(100)",
    "a virtual timer": "signal.setitimer(signal.ITIMER_VIRTUAL, 100)",
    "a profiling timer": "signal.setitimer(signal.ITIMER_PROF, 100, 100)",
    "the recursion limit": "sys.setrecursionlimit(5000)",
    "a stream": "import io; sys.stdout = io.StringIO()",
}


@pytest.mark.parametrize("way", ["long", "short"])
@pytest.mark.parametrize("name", TASKS)
def test_is_put_back(name: str, way: str, tmp_path: Path) -> None:
    """At once behind a long task; behind a short one some of it at the end of its batch."""
    text = CHILD.replace("TASK", TASKS[name]).replace("WAY", repr(way))
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout == "restored\n", done.stderr
    assert done.returncode == 0


AT_ONCE = """
import os, signal, time
from runner.handling import restore
restore.SHORT_SECONDS = 3600.0
state = restore.ProcessState()
umask = os.umask(0o077)
signal.signal(signal.NUMBER, print)
signal.setitimer(signal.TIMER, 100)
state.restore(time.monotonic())
assert signal.getitimer(signal.TIMER) == (0.0, 0.0)
assert signal.getsignal(signal.NUMBER) is signal.SIG_DFL
assert os.umask(0) == umask
"""


@pytest.mark.parametrize(
    ("timer", "number"), [("ITIMER_VIRTUAL", "SIGVTALRM"), ("ITIMER_PROF", "SIGPROF")]
)
def test_what_would_harm_the_next_task_does_not_wait(timer: str, number: str) -> None:
    """A timer with a handler would strike in it; with a umask its files could not be read."""
    text = AT_ONCE.replace("TIMER", timer).replace("NUMBER", number)
    done = subprocess.run(
        [sys.executable, "-c", text], env=os.environ, capture_output=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr


DUMPS = """
import faulthandler, time
from runner.handling import restore
state = restore.ProcessState()
faulthandler.dump_traceback_later(0.2, exit=True)
state.restore(time.monotonic())
time.sleep(0.5)
"""


def test_a_dump_that_was_to_come_does_not_end_the_next_task() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DUMPS], env=os.environ, capture_output=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
