"""How the log says what became of a task: one place for the sentence, whoever ended the claim."""

from typing import NamedTuple

from .text import attempts
from .wire import Outcome


class Said(NamedTuple):
    """A record for the log: its level, its stable event name, and the sentence."""

    level: str
    event: str
    message: str


LOST = "lost its lease: nothing was written"
_PHRASES = {
    Outcome.OK: ("debug", "done", "done"),
    Outcome.RETRIED: ("info", "retried", "failed and will be retried"),
    Outcome.RELEASED: ("info", "released", "was given back"),
    Outcome.SNOOZED: ("info", "snoozed", "was put off"),
    Outcome.LOST: ("warning", "lost_lease", LOST),
}


def say(
    task_type: str, task_id: int, outcome: Outcome, attempt: int, why: str | None = None
) -> Said:
    """What is said of a task that ended so; people hear only of what people must fix."""
    name = f"task {task_id} ({task_type})"
    because = f": {why}" if why else ""
    if outcome is Outcome.DEAD:
        return Said("error", "dead", f"{name} is dead after {attempts(attempt)}{because}")
    level, event, phrase = _PHRASES[outcome]
    return Said(level, event, f"{name} {phrase}{because}")


def say_lost(task_id: int) -> str:
    """The same of a task of which only its number is known any more."""
    return f"task {task_id} {LOST}"
