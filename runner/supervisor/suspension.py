"""Ctrl-Z: the console gives the terminal back before the parent stops, so that the shell finds it sane.

Only the parent stops; leases see to the rest. Times are local.
"""

import os
import signal

from ..clock import now
from ..wire import Order
from .family import Family

CONSOLE = "console"
PATIENCE_SECONDS = 0.5  # with a console that does not answer


class Suspension:
    """The stop of the parent by the terminal, and its going on."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self.due_at = float("inf")

    def ask(self) -> None:
        """Have the console leave the screen first, where there is one."""
        console = self._family.only(CONSOLE)
        if console is None or console.hello_at is None:
            self.stop()
        else:
            self._family.tell(console, Order.SUSPEND)
            self.due_at = now() + PATIENCE_SECONDS

    def granted(self) -> None:
        """The console has left the screen."""
        if self.due_at != float("inf"):
            self.stop()

    def stop_if_due(self) -> None:
        """Stop when the console has been waited for long enough."""
        if now() >= self.due_at:
            self.stop()

    def stop(self) -> None:
        """Stop here, as the signal would have done; returns when somebody has us go on."""
        self.due_at = float("inf")
        trap = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, trap)
        if (console := self._family.only(CONSOLE)) is not None:
            self._family.tell(console, Order.RESUME)
