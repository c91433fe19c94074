"""runner: a batch runner for Python on PostgreSQL."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .errors import (
    Discard,
    InvalidParams,
    InvalidTask,
    Retry,
    RunnerError,
    Snooze,
    Stopped,
    TimeLimit,
)
from .task import Task

if TYPE_CHECKING:
    from .enqueueing import aenqueue, aenqueue_many, enqueue, enqueue_many, enqueue_sql
    from .enqueueing.client import Client
    from .registry import Registry

__all__ = [
    "Client",
    "Discard",
    "InvalidParams",
    "InvalidTask",
    "Registry",
    "Retry",
    "RunnerError",
    "Snooze",
    "Stopped",
    "Task",
    "TimeLimit",
    "__version__",
    "aenqueue",
    "aenqueue_many",
    "enqueue",
    "enqueue_many",
    "enqueue_sql",
]

# Imported when first asked for: the command line and the parent process need none of them.
_LAZY = {
    "Client": "enqueueing.client",
    "Registry": "registry",
    "aenqueue": "enqueueing",
    "aenqueue_many": "enqueueing",
    "enqueue": "enqueueing",
    "enqueue_many": "enqueueing",
    "enqueue_sql": "enqueueing",
}


def __getattr__(name: str) -> Any:
    if name == "testing":
        return import_module(f"{__name__}.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
