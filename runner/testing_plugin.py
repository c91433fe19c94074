"""The pytest plugin with the fixture `runner_drain`. pytest finds it; nothing else needs pytest."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .testing import Drained


def _runner_drain() -> "Callable[..., Drained]":
    """`runner_drain(conn, tasks)`: runner.testing.drain, and the test fails when a task died.

    Failed tasks are retried at once unless told `retries=False`, so that one that always fails dies
    here. With `allow_dead=True` nothing is asserted. The other options are those of `drain`.
    """
    from .testing import drain

    def checked(
        conn: Any, tasks: Any, *, retries: bool = True, allow_dead: bool = False, **options: Any
    ) -> "Drained":
        drained = drain(conn, tasks, retries=retries, **options)
        if not allow_dead:
            _check(drained, bounded="max_tasks" in options)
        return drained

    return checked


def _check(drained: "Drained", *, bounded: bool) -> None:
    if drained.dead:
        last = {task.id: (task, error) for task, error in drained.errors}.values()
        lines = [f"{task.type} {task.id}: {type(error).__name__}: {error}" for task, error in last]
        told = "\n".join([f"{drained.dead} tasks died; what failed:", *lines])
        raise AssertionError(told) from drained.errors[-1][1]
    if drained.left and not bounded:
        raise AssertionError(
            f"{drained.left} tasks are still ready: paused, held by another session,"
            " or more than max_tasks"
        )


runner_drain = pytest.fixture(name="runner_drain")(_runner_drain)
