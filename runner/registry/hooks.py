"""What an app wants to be called for besides its tasks."""

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..task import Task

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Hooks:
    """The registered functions of each kind, in the order of their registration."""

    on_worker_start: list[Callable[[], object]] = field(default_factory=list)
    on_worker_stop: list[Callable[[], object]] = field(default_factory=list)
    on_error: list[Callable[[Task, BaseException], object]] = field(default_factory=list)
    around: list[Callable[[Task], contextlib.AbstractContextManager[object]]] = field(
        default_factory=list
    )


ARGUMENTS = {
    "on_worker_start": (),
    "on_worker_stop": (),
    "on_error": ("task", "error"),
    "around": ("task",),
}


def as_context_manager(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A generator function as the context manager that its author meant."""
    return contextlib.contextmanager(hook) if inspect.isgeneratorfunction(hook) else hook
