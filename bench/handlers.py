"""The app of the fleets under measurement."""

import os
import time
from pathlib import Path
from typing import Any

import runner
from bench import witness
from runner.errors import AppError

tasks = runner.Registry()
EFFECT = "insert into bench.effect (task_id) values (%s)"
HOLD_SECONDS = 0.05

if path := os.environ.get(witness.VARIABLE):
    seen = witness.Counter(Path(path))


@tasks.task
def noop(tx: Any, task: runner.Task) -> None:
    """Nothing."""
    seen.add()


@tasks.task
def high(tx: Any, task: runner.Task) -> None:
    """Nothing, of the first of three classes."""
    seen.add()


@tasks.task
def middle(tx: Any, task: runner.Task) -> None:
    """Nothing, of the second."""
    seen.add()


@tasks.task
def low(tx: Any, task: runner.Task) -> None:
    """Nothing, of the third."""
    seen.add()


@tasks.task
def effect(tx: Any, task: runner.Task) -> None:
    """One row in the transaction that deletes the task."""
    tx.execute(EFFECT, [task.id])
    seen.add()


@tasks.task
def stamp(tx: Any, task: runner.Task) -> None:
    """Tells when it started, if asked to; a backlog of the same type is not."""
    if task.params:
        seen.started(task.id, time.clock_gettime_ns(time.CLOCK_MONOTONIC))
    seen.add()


@tasks.task
def hold(tx: Any, task: runner.Task) -> None:
    """Keeps its worker busy while the named file is there."""
    seen.add()
    while os.path.exists(task.params["while"]):
        time.sleep(HOLD_SECONDS)


try:

    @tasks.task("effect_grouped", group=True)
    def effect_grouped(tx: Any, task: runner.Task) -> None:
        """One row, in the one transaction of a whole batch."""
        tx.execute(EFFECT, [task.id])
        seen.add()

except AppError:  # a runner without groups: the workload says so
    pass
