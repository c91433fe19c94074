"""SIGTERM to a worker, turned into an exception inside the handler, at most once an attempt."""

import contextlib
import signal

from ..clock import now
from ..errors import Stopped, TimeLimit


class Interrupts:
    """Raises Stopped or TimeLimit where a handler is running, and nowhere else.

    An exception in the middle of bookkeeping would lose a task between two statements, so the signal
    counts only while `armed`; the trap itself disarms before it raises, so that no second one can hit
    whatever clears up after the first.
    """

    def __init__(self) -> None:
        self._armed = False
        self._limit_at: float | None = None
        self.raised: type[BaseException] | None = None

    def install(self) -> None:
        """Take SIGTERM; again after each handler, which may have changed it."""
        signal.signal(signal.SIGTERM, self._trap)

    def leave(self) -> None:
        """In a process that a handler has forked: what SIGTERM and SIGINT do there is up to it."""
        self._armed = False
        with contextlib.suppress(ValueError):  # forked in a sub-interpreter
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def arm(self, limit_at: float | None) -> None:
        """A handler runs from now on; `limit_at` tells a time limit from a stop."""
        self._limit_at = limit_at
        self.raised = None
        self._armed = True

    def disarm(self) -> None:
        """It is over."""
        self._armed = False

    def _trap(self, number: int, frame: object) -> None:
        if not self._armed:
            return
        self._armed = False
        # The parent sends TERM for a limit when it is past, and this clock is the parent's.
        over = self._limit_at is not None and now() >= self._limit_at
        self.raised = TimeLimit if over else Stopped
        raise self.raised("time limit" if over else "the fleet is stopping")
