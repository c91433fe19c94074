"""The parent of a fleet: one loop that waits on nothing but its own selector.

It holds no database connection, no thread and no terminal, so that nothing but its own death stops it
from renewing leases and killing whoever lost theirs.
"""

import os
import selectors
import signal
from collections.abc import Sequence

from .. import kernel
from ..clock import now
from ..config import FleetConfig
from ..permits import Permits
from ..wire import Event, EventReader, Kind, Order, Outcome
from .child import Child
from .course import Course, Report
from .deaths import Deaths
from .family import Family
from .feed import Feed
from .goals import Goal
from .leases import RENEWER, Leases
from .notify import Notify
from .renewals import Renewals
from .role import Role
from .signals import Traps
from .spawn import set_pipe_size
from .staff import Staff
from .starts import Starts
from .suspension import Suspension
from .tallies import Tallies

EVENTS_AT_ONCE = 1 << 18  # bytes
BURST = 2  # events in one read that make the loop pause, so that the next read brings many
PAUSE_SECONDS = 0.0005  # for each of them …
LONGEST_PAUSE_SECONDS = 0.004  # … up to this: being woken costs more than an event
TURN_SECONDS = 0.01
COMING_AND_GOING = frozenset(
    (Kind.CLAIMED, Kind.STARTED, Kind.PROGRESS, Kind.ENDING, Kind.DONE, Kind.CLEARED, Kind.FINISHED)
)
ASK_SECONDS = 0.5  # between two requests to look, where the answer was no full look


class Supervisor:
    """Runs children in roles until the goal is reached or a signal stops it."""

    def __init__(
        self,
        config: FleetConfig,
        roles: Sequence[Role],
        goal: Goal,
        renewals: Renewals,
        tallies: Tallies,
        events: tuple[int, int],
        log_fd: int,
        *,
        groups: Sequence[tuple[str, ...] | None] = (None,),
        leased: Sequence[bytes] = (),
        permits: Permits | None = None,
        on_terminal: bool = False,
        feed: Feed | None = None,
    ) -> None:
        kernel.become_subreaper()
        self.config = config
        self.goal = goal
        self.on_terminal = on_terminal
        self.renewals = renewals
        self.events, events_write = events
        self.starts = Starts()
        self.course = Course(tallies)
        self.family = family = Family(events_write, log_fd)
        self.leases = Leases(config, family, self.course, renewals, leased)
        self.deaths = Deaths(family, self.course, renewals, self.starts)
        self.staff = Staff(
            config, roles, goal, family, self.course, renewals, self.starts, groups, permits
        )
        self.log = family.log
        self.suspension = Suspension(family)
        self.notify = Notify()
        self._feed = feed
        self._reader = EventReader()
        self._strays_told = 0
        self._busy = False  # tasks have come or gone since everybody was looked at
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
        """Look at everybody."""
        self.leases.renew()
        self.notify.feed(now())
        self.leases.kill_overdue()
        self.leases.hand_back()
        self.tell_counts()
        self.manage_children()
        self.look_at_goal()
        self.tell_console()

    def open(self) -> None:
        """Take the signals, and open the selector."""
        self.traps = Traps()
        self.notify.open()
        self.family.selector.register(self.traps.fd, selectors.EVENT_READ)
        self.family.selector.register(self.events, selectors.EVENT_READ)
        os.set_blocking(self.events, False)
        set_pipe_size(self.events, 1 << 20)

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
        if self._busy and at - self._turned_at < TURN_SECONDS:
            return False
        self._busy, self._turned_at = False, at
        return True

    def wait(self) -> None:
        """Sleep until something can be read, or the next deadline."""
        at = now()
        if self._busy:
            until = self._turned_at + TURN_SECONDS
        else:
            until = min(at + 1.0, self.leases.next_deadline(), self.staff.next_start_at())
            until = min(until, self.suspension.due_at)
        for key, _ in self.family.selector.select(max(0.0, until - at)):
            if isinstance(key.data, Child):
                self.family.read_output(key.data)

    def read_signals(self) -> None:
        """TERM and INT stop, in two stages; HUP reloads, or stops where the terminal is gone."""
        for number in self.traps.read():
            hung_up = number == signal.SIGHUP
            if hung_up and not self.on_terminal:
                self.staff.succession.reload()
            elif hung_up or number in (signal.SIGTERM, signal.SIGINT):
                self._stop_by(number)
            elif number == signal.SIGTSTP:
                self.suspension.ask()

    def _stop_by(self, number: signal.Signals) -> None:
        cut_short = 128 + number if self.config.drain is not None else 0
        if self.course.end(number.name, cut_short):
            self._tell_stop()
        elif self.course.force(128 + number):
            self.log.info("forced", "stopping at once")

    def _tell_stop(self) -> None:
        busy = sum(child.work is not None for child in self.family.workers())
        text = f"stopping ({self.course.reason})"
        self.notify.stopping(text)
        if busy:
            who = "1 task has" if busy == 1 else f"{busy} tasks have"
            text += f": {who} up to {self.config.grace_seconds:g} s"
        self.log.info("stopping", text + (", again to force" if self.on_terminal else ""))

    def read_events(self) -> None:
        """Take in what children said, in bulk."""
        self._busy = False
        seen = 0
        full = True
        while full:
            try:
                data = os.read(self.events, EVENTS_AT_ONCE)
            except BlockingIOError:
                break
            full = len(data) == EVENTS_AT_ONCE
            at = now()
            for event in self._reader.feed(data):
                seen += 1
                self._busy = self._busy or event.kind in COMING_AND_GOING
                self.hear(event, at)
        if self._reader.strays > self._strays_told:
            self._strays_told = self._reader.strays
            self.log.warning("stray", "bad bytes on the event pipe were skipped")
        if self._busy and seen > BURST:
            signal.sigtimedwait([], min(seen * PAUSE_SECONDS, LONGEST_PAUSE_SECONDS))

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
        self._look()
        if self.course.stop is not None:
            self.staff.end_in_order()
            return
        self.staff.fill()
        self.staff.succession.step()
        self.staff.count_idle()
        self.staff.grant_permits()

    def look_at_goal(self) -> None:
        """Begin the stop when the goal is reached; until then have idle workers look again."""
        if self.course.stop is not None:
            return
        self._look()
        reason = self.goal.reason_to_end(self.course.view)
        if reason == "database":
            self.log.error("fatal", "the database has been away for too long")
        if reason is not None and self.course.end(reason, 69 if reason == "database" else 0):
            self._tell_stop()
        elif self.config.drain is not None:
            self._have_idle_look()

    def _have_idle_look(self) -> None:
        at, changed_at = now(), self.course.view.changed_at
        for child in self.course.view.workers:
            if not child.idle or child.idle_look > changed_at:
                continue
            # Asked since the last change, it will answer; if it did not, it is asked again.
            if child.asked_to_look_at <= changed_at or at - child.asked_to_look_at > ASK_SECONDS:
                child.asked_to_look_at = at
                self.family.tell(child, Order.LOOK)

    def tell_console(self) -> None:
        """Figures for the live view; and no more waiting for one that does not answer."""
        if self._feed is not None:
            self._feed.send(self.family, self.course)
        self.suspension.look()

    def _look(self) -> None:
        view = self.course.view
        view.workers = [child for child in self.family.workers() if not child.stopping]
        view.now = now()
        view.unsettled = len(self.renewals.unsettled)
