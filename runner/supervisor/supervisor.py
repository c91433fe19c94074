"""The parent of a fleet: one loop that waits on nothing but its own selector.

It holds no database connection, no thread and no terminal, so that nothing but its own death stops it
from renewing leases and killing whoever lost theirs.
"""

import selectors
import signal
from collections.abc import Sequence

from .. import kernel
from ..clock import now
from ..config import FleetConfig
from ..wire import Event, Kind, Outcome
from .child import Child
from .course import Course, Report
from .deaths import Deaths
from .family import Family
from .goals import Goal
from .inbox import Inbox
from .leases import RENEWER, Leases
from .means import Means
from .notify import Notify
from .role import Role
from .signals import Traps
from .staff import Staff
from .starts import Starts
from .stopping import Stopping
from .suspension import Suspension

TURN_SECONDS = 0.01  # between two looks at everybody while nothing but tasks comes and goes


class Supervisor:
    """Runs children in roles until the goal is reached or a signal stops it."""

    def __init__(
        self, config: FleetConfig, roles: Sequence[Role], goal: Goal, means: Means
    ) -> None:
        # What workers leave behind when they die comes to us, and not to init: we end it.
        kernel.become_subreaper()
        self.config = config
        self.on_terminal = means.on_terminal
        self.feed = means.feed
        self.renewals = renewals = means.renewals
        events, events_write = means.events
        self.starts = starts = Starts()
        self.course = course = Course(means.tallies)
        self.family = family = Family(events_write, means.log_fd)
        self.log = family.log
        self.inbox = Inbox(events, family.log)
        self.notify = Notify()
        self.leases = Leases(config, family, course, renewals, means.leased)
        self.deaths = Deaths(family, course, renewals, starts)
        self.staff = Staff(config, roles, goal, means, family, course, starts)
        self.stopping = Stopping(
            config, goal, family, course, self.notify, on_terminal=means.on_terminal
        )
        self.suspension = Suspension(family)
        self._turned_at = 0.0

    # -- the story --------------------------------------------------------------------------------

    def run(self) -> Report:
        """Run the fleet to its end."""
        self.open()
        try:
            while not self.over():
                self.wait()
                self.read_signals()
                self.read_events()
                self.reap_children()
                if self.turn_is_due():
                    self.turn()
        finally:
            self.close()
        return self.course.report()

    def turn(self) -> None:
        """Look at everybody. Leases come first: whatever follows can wait, and they cannot."""
        self.leases.renew()
        self.notify.alive(now())
        self.leases.kill_overdue()
        self.leases.hand_back()
        self.tell_counts()
        self.manage_children()
        self.look_at_goal()
        self.tell_console()

    def open(self) -> None:
        """Take the signals, and open the selector."""
        # Before anybody is forked: a stop that came earlier would end the command, and not the fleet.
        self.traps = Traps()
        self.notify.open()
        self.family.selector.register(self.traps.fd, selectors.EVENT_READ)
        self.inbox.open()
        self.family.selector.register(self.inbox.fd, selectors.EVENT_READ)

    def close(self) -> None:
        """Leave nobody behind, whatever ended the loop."""
        for child in self.family:
            self.deaths.bury(child)
        self.traps.close()
        self.notify.close()
        self.family.selector.close()

    def over(self) -> bool:
        """The stop is done: no child is left."""
        return self.course.stop is not None and not len(self.family)

    # -- one turn of the loop ---------------------------------------------------------------------

    def turn_is_due(self) -> bool:
        """Whether to look at everybody now: at once after anything but the tasks' own coming and
        going, which may be thousands a second, and after a moment of those."""
        at = now()
        if self.inbox.busy and at - self._turned_at < TURN_SECONDS:
            return False
        self.inbox.busy, self._turned_at = False, at
        return True

    def wait(self) -> None:
        """Sleep until something can be read, or the next deadline."""
        at = now()
        if self.inbox.busy:
            until = self._turned_at + TURN_SECONDS
        else:
            until = min(at + 1.0, self.leases.next_deadline(), self.staff.next_start_at())
            until = min(until, self.suspension.due_at)
        for key, _ in self.family.selector.select(max(0.0, until - at)):
            if isinstance(key.data, Child):
                self.family.read_output(key.data)

    def read_signals(self) -> None:
        """TERM and INT stop, in two stages; HUP reloads, or stops where the terminal is gone. What was
        said before is heard first: a stop tells how many tasks it meets."""
        numbers = list(self.traps.read())
        if numbers:  # once: in a storm of signals the leases would have to wait for each
            self.read_events()
        for number in numbers:
            hung_up = number == signal.SIGHUP
            if hung_up and not self.on_terminal:
                self.staff.succession.reload()
            elif hung_up or number in (signal.SIGTERM, signal.SIGINT):
                self.stopping.by_signal(number)
            elif number == signal.SIGTSTP:
                self.suspension.ask()

    def read_events(self) -> None:
        """Take in what children said."""
        for event, at in self.inbox.read():
            self.hear(event, at)

    def hear(self, event: Event, at: float) -> None:
        """Take in one event, read at this time. The most frequent kinds come first."""
        child = self.family.by_incarnation.get(event.incarnation)
        if child is None:
            return  # it has been buried: what it wrote last was read before that
        new = child.hello_at is None
        child.hear(event, at)
        view = self.course.view
        match event.kind:
            case Kind.STARTED:
                view.starts += 1
            case Kind.DONE:
                self._count(child, Outcome.OK, event.at, at)
            case Kind.FINISHED:
                self._count(child, Outcome(event.flag), event.at, at)
            case Kind.HELLO:
                self._greet(child, new)
            case Kind.REGISTERED:
                self.renewals.due_at = at
                self.notify.ready(f"{self.config.procs} workers")
            case Kind.SUSPENDED:
                self.suspension.granted()
            case Kind.PROMOTED:
                self.course.changed(at)
            case Kind.BACKLOG:
                view.backlog, view.looked_at = event.count, event.at
                view.retry_is_near = bool(event.flag)
            case _:
                self.leases.hear(event)

    def _greet(self, child: Child, first: bool) -> None:
        if first:
            self.starts.succeeded(child.role.name)
        if first and child.role.name == RENEWER:
            self.renewals.start_over()

    def _count(self, child: Child, outcome: Outcome, seconds: float, at: float) -> None:
        self.course.ended(outcome, child.type, seconds, at)
        child.done += outcome is Outcome.OK
        child.failed += outcome in (Outcome.RETRIED, Outcome.DEAD)

    def reap_children(self) -> None:
        """Bury the dead, after all that they said has been heard."""
        while (child := self.deaths.next()) is not None:
            self.read_events()
            self.deaths.bury(child)

    def tell_counts(self) -> None:
        """Hand over what has been counted; at a stop at once, before the maintainer leaves."""
        self.course.tallies.tell(now(), at_once=self.course.stop is not None)

    def manage_children(self) -> None:
        """Start who is missing; at a stop, end them in order."""
        self._refresh_view()
        if self.course.stop is not None:
            self.staff.end_in_order()
            return
        self.staff.fill()
        self.staff.succession.step()
        self.staff.count_idle()
        self.staff.grant_permits()

    def look_at_goal(self) -> None:
        """Stop when there is nothing more to run for."""
        self._refresh_view()
        self.stopping.by_goal()

    def tell_console(self) -> None:
        """Figures for the live view; and no more waiting for one that does not answer."""
        if self.feed is not None:
            self.feed.send(self.family, self.course)
        self.suspension.stop_if_due()

    def _refresh_view(self) -> None:
        view = self.course.view
        workers = self.family.workers()
        view.workers = [child for child in workers if not child.stopping]
        view.leaving = len(workers) - len(view.workers)
        view.now = now()
        view.unsettled = len(self.renewals.unsettled) + len(self.renewals.unhanded)
