"""runner: a batch runner for Python on PostgreSQL."""

from ._version import __version__
from .errors import Discard, InvalidTask, Retry, RunnerError, Snooze, Stopped, TimeLimit
from .task import Task

__all__ = [
    "Discard",
    "InvalidTask",
    "Retry",
    "RunnerError",
    "Snooze",
    "Stopped",
    "Task",
    "TimeLimit",
    "__version__",
]
