"""Calling a handler: under its time limit, inside the hooks, and with its traces removed after it."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..registry import Handler
from ..registry.hooks import Hooks
from ..store.claim import UnreadableParams
from ..store.tx import Tx
from ..task import Task
from .interrupts import Interrupts
from .printing import Printed
from .restore import ProcessState


@dataclass
class Calling:
    """What is the same for every call in one worker."""

    interrupts: Interrupts
    state: ProcessState
    printed: list[Printed]
    hooks: Hooks
    tell_killed: Callable[[int], None]  # so many processes were left running

    def call(self, handler: Handler, conn: Tx, task: Task) -> BaseException | None:
        """Run the handler; what it raised, whatever that is: it ends the attempt, not the worker."""
        for stream in self.printed:
            stream.task = task.id
        error: BaseException | None = None
        began = time.monotonic()
        try:
            try:
                if type(task.params) is UnreadableParams:
                    raise task.params
                self.interrupts.arm(task.limit_at)
                if self.hooks.around:
                    self._call_around(handler, conn, task)
                else:
                    handler.run(conn, task)
            finally:
                self.interrupts.disarm()
        except BaseException as raised:  # one that struck on the way to disarm as well
            error = raised
        if killed := self.state.restore(began):
            self.tell_killed(killed)
        for stream in self.printed:
            stream.end()
        return error

    def end_batch(self) -> None:
        """Put back what the tasks of a batch may have left for one another."""
        self.state.restore_all()

    def _call_around(self, handler: Handler, conn: Tx, task: Task) -> None:
        with contextlib.ExitStack() as stack:
            for hook in self.hooks.around:
                stack.enter_context(hook(task))
            handler.run(conn, task)
