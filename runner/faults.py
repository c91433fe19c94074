"""Faults on purpose, for tests: `RUNNER_FAULT=POINT:ACTION[,…]` makes a process fail at a named point.

Actions: kill (itself), kill-parent, freeze (SIGSTOP itself), raise, exit, term-parent (a stop arrives),
wait (half a second), hold (until there is FILE.go). With RUNNER_FAULT_ONCE=FILE only the first process
that gets there fails: the file is made by it. Without the variable a point costs one look at an empty
table.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping

WAIT_SECONDS = 0.5
HOLD_SECONDS = 30.0


class FaultInjected(RuntimeError):
    """A test asked for this."""


def _raise() -> None:
    raise FaultInjected("a test asked for this")


def _term_parent() -> None:
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(WAIT_SECONDS)


def _hold() -> None:
    until = time.monotonic() + HOLD_SECONDS
    path = os.environ.get("RUNNER_FAULT_ONCE", "") + ".go"
    while not os.path.exists(path) and time.monotonic() < until:
        time.sleep(0.005)


ACTIONS: dict[str, Callable[[], object]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "kill-parent": lambda: os.kill(os.getppid(), signal.SIGKILL),
    "term-parent": _term_parent,
    "freeze": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "raise": _raise,
    "exit": lambda: os._exit(0),
    "wait": lambda: time.sleep(WAIT_SECONDS),
    "hold": _hold,
}


def parse(text: str) -> dict[str, str]:
    """Point to action; ValueError names what is not one."""
    faults = dict(one.strip().split(":", 1) for one in text.split(",") if one.strip())
    for action in faults.values():
        if action not in ACTIONS:
            raise ValueError(f"RUNNER_FAULT: no action is called {action}")
    return faults


def _wanted(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    text = environment.get("RUNNER_FAULT", "")
    if text:
        print(f"runner: warning: faults are injected: {text}", file=sys.stderr)  # noqa: T201
    return parse(text)


_FAULTS = _wanted()


def point(name: str) -> None:
    """Fail here, if a test asked for it."""
    if _FAULTS and name in _FAULTS and _first():
        ACTIONS[_FAULTS[name]]()


def _first() -> bool:
    path = os.environ.get("RUNNER_FAULT_ONCE")
    if not path:
        return True
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True
