"""What a worker does once: load the app, and prepare for calling its handlers."""

import gc
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .. import app
from ..config import FleetConfig
from ..logpipe import LogPipe, PipeHandler
from ..registry import Registry
from ..task import Task
from ..text import error_text
from .calling import Calling
from .interrupts import Interrupts
from .printing import Printed
from .restore import ProcessState


def load(config: FleetConfig) -> Registry:
    """The app's registry; an empty one where no app is asked for. RunnerError when that fails."""
    return Registry() if config.app is None else app.load(config.app, config.app_dir)


def capture_prints(log: LogPipe) -> list[Printed]:
    """Have what Python prints in this process logged with its task."""
    printed = [Printed(log, stream.buffer) for stream in (sys.stdout, sys.stderr)]
    sys.stdout, sys.stderr = printed
    return printed


def prepare(
    registry: Registry, log: LogPipe, interrupts: Interrupts, printed: list[Printed]
) -> Calling:
    """Everything that calls of handlers share; the state of the process to come back to is now."""
    logger = logging.getLogger("runner.task")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(PipeHandler(log))

    def tell_killed(count: int) -> None:
        what = "a process" if count == 1 else f"{count} processes"
        log.info("descendants", f"killed {what} that a task left running")

    interrupts.install()  # the app may have taken it
    os.register_at_fork(after_in_child=interrupts.leave)
    # What the app has loaded stays: walked through again and again while tasks run, it costs some per
    # cent of their time, and its pages would cease to be shared.
    gc.collect()
    gc.freeze()
    return Calling(interrupts, ProcessState(), printed, registry.hooks, tell_killed)


@dataclass
class SafeHooks:
    """Calls an app's hooks; what they raise is logged, and changes nothing."""

    registry: Registry
    log: LogPipe

    def start(self) -> None:
        """The worker begins."""
        self._call("on_worker_start", self.registry.hooks.on_worker_start)

    def stop(self) -> None:
        """The worker leaves."""
        self._call("on_worker_stop", self.registry.hooks.on_worker_stop)

    def error(self, task: Task, error: BaseException) -> None:
        """A handler failed."""
        self._call("on_error", self.registry.hooks.on_error, task, error)

    def _call(self, name: str, hooks: Sequence[Callable[..., object]], *args: object) -> None:
        for hook in hooks:
            try:
                hook(*args)
            except Exception as trouble:
                self.log.error("hook_failed", f"{name} failed: {error_text(trouble)}")
