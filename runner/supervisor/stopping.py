"""The end of a fleet: begun by a signal or by its goal, once, and told once."""

import signal

from ..clock import now
from ..config import FleetConfig
from ..text import plural
from ..wire import Order
from .course import Course
from .family import Family
from .goals import Goal
from .notify import Notify

ASK_SECONDS = 0.5  # between two requests to look, where the answer was no full look


class Stopping:
    """Begins the stop, and forces it at a later signal; how it is carried out is the staff's."""

    def __init__(
        self,
        config: FleetConfig,
        goal: Goal,
        family: Family,
        course: Course,
        notify: Notify,
        *,
        on_terminal: bool,
    ) -> None:
        self.config = config
        self.goal = goal
        self.family = family
        self.course = course
        self.notify = notify
        self.on_terminal = on_terminal
        self.log = family.log

    def by_signal(self, number: signal.Signals) -> None:
        """The first one lets running tasks end; a later one, unless it is the same Ctrl-C, forces."""
        cut_short = 128 + number if self.config.drain is not None else 0
        if self.course.end(number.name, cut_short):
            self._tell()
        elif self.course.force(128 + number):
            self.log.info("forced", "stopping at once")

    def by_goal(self) -> None:
        """Begin the stop when the goal is reached; until then have a drain's idle workers look again."""
        if self.course.stop is not None:
            return
        reason = self.goal.reason_to_end(self.course.view)
        if reason == "database":
            self.log.error("fatal", "the database has been away for too long")
        if reason is not None and self.course.end(reason, 69 if reason == "database" else 0):
            self._tell()
        elif self.config.drain is not None:
            self._have_idle_look()

    def _tell(self) -> None:
        busy = sum(child.work is not None for child in self.family.workers())
        text = f"stopping ({self.course.reason})"
        self.notify.stopping(text)
        if busy:
            who = f"{plural(busy, 'task')} {'has' if busy == 1 else 'have'}"
            text += f": {who} up to {self.config.grace_seconds:g} s"
        self.log.info("stopping", text + (", again to force" if self.on_terminal else ""))

    def _have_idle_look(self) -> None:
        """An empty look from before the last change proves nothing, and one who idles sleeps until it
        is woken: without this a drain would wait for everybody's poll."""
        at, changed_at = now(), self.course.view.changed_at
        for child in self.course.view.workers:
            if not child.idle or child.idle_look > changed_at:
                continue
            # Asked since the last change, it will answer; if it did not, it is asked again.
            if child.asked_to_look_at <= changed_at or at - child.asked_to_look_at > ASK_SECONDS:
                child.asked_to_look_at = at
                self.family.tell(child, Order.LOOK)
