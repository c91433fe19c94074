"""A task as a handler and the protocol see it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from . import clock

Report = Callable[["Task", int, int], None]
_LOGGER = logging.getLogger("runner.task")


def no_progress(task: "Task", done: int, total: int) -> None:
    """Progress of a task that runs under nobody's eyes goes nowhere."""


@dataclass(slots=True)
class Task:
    """One claimed task: what the claim returned, and what its handler may ask of it.

    `attempt` counts this one; `fence` grows with every claim and orders holders; `limit_at` is on
    the local clock (`runner.clock`), None without a time limit.
    """

    id: int
    type: str
    params: Any
    queue: str = "default"
    attempt: int = 1
    max_attempts: int = 5
    key: str | None = None
    fence: int = 0
    created_at: datetime | None = None
    limit_at: float | None = None
    report_progress: Report = field(default=no_progress, repr=False, compare=False)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry this task's id, type and attempt."""
        fields = {"task": self.id, "type": self.type, "attempt": self.attempt}
        return logging.LoggerAdapter(_LOGGER, fields)

    def remaining(self) -> float | None:
        """Seconds until the time limit (negative when past it), None without a limit."""
        return None if self.limit_at is None else self.limit_at - clock.now()

    def progress(self, done: int, total: int) -> None:
        """Tell the console how far this task is; cheap, and never blocks."""
        self.report_progress(self, done, total)
