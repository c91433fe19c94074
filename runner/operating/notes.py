"""What the fields of a task do not say by themselves: `note` of `show`. Pure."""

from collections.abc import Mapping
from typing import Any

from . import interruptions

EARLIER = "last_error is of an earlier attempt than cause"
FORMER = "cause and last_error are of before: no attempt is spent since, as after a requeue"


def notes(task: Mapping[str, Any]) -> list[str]:
    """Sentences for a task in the names of `show`."""
    found = []
    if told := interruptions.told(task["released"], task["max_attempts"], task["cause"]):
        found.append(told)
    if task["last_error"] and not is_of(task["cause"] or "", task["last_error"]):
        found.append(EARLIER)
    elif task["last_error"] and not (task["attempt"] or task["released"]):
        found.append(FORMER)
    return found


def is_of(cause: str, error: str) -> bool:
    """Whether an error is that of the attempt that ended by this cause: its class has the same name."""
    name = "TimeLimit" if cause == "time limit" else cause.rpartition(".")[2]
    first = error.split("\n", 1)[0]
    return first == name or first.startswith(f"{name}:")
