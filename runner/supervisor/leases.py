"""The leases of the workers: asked for in time, taken at the renewer's word, ended at their deadline."""

import os
from collections.abc import Sequence

from ..clock import now
from ..config import FleetConfig
from ..wire import MOST_TOKENS, TOKEN_SIZE, Event, Kind, Order, Outcome, Token, unpack_tokens
from .child import Child, Replaced, Why
from .course import Course
from .family import Family
from .renewals import Renewals

RENEWER = "renewer"
HELD_UP_SECONDS = 1.0


class Leases:
    """Keeps each worker's deadline, and kills whoever is past it."""

    def __init__(
        self,
        config: FleetConfig,
        family: Family,
        course: Course,
        renewals: Renewals,
        also: Sequence[bytes],
    ) -> None:
        self.config = config
        self.family = family
        self.course = course
        self.renewals = renewals
        self._also = also  # rows that are renewed beside the workers': a drain's lock

    def next_deadline(self) -> float:
        """The local time at which something here is to be done."""
        at = now()
        deadlines = [self.renewals.due_at]
        for child in self.family:
            doom = child.doom(at, self.config, self.course.stop)
            deadlines.append(doom.kill_at)
            if child.work is None:
                continue  # nobody to ask to give up, and nothing to give back
            if child.term_for is None:
                deadlines.append(doom.term_at)
            deadlines.append(child.stack_due_at(doom))
            if not child.handed_back:
                deadlines.append(child.work.started_at + HELD_UP_SECONDS)
        return min(deadlines)

    def renew(self) -> None:
        """Ask for every worker that may live on. Database gone, renewer hung and renewer dead are one
        thing here: no answer before the deadline."""
        at, view = now(), self.course.view
        renewer = self.family.only(RENEWER)
        if renewer is None or renewer.hello_at is None:
            view.database_away_since = view.database_away_since or at
            return
        if at >= self.renewals.due_at:
            self.renewals.ask(self.family.workers(), self._also, at)
        asked_at, every = self.renewals.asked_at, self.renewals.every_seconds
        if asked_at is not None and at - asked_at > 2 * every:
            view.database_away_since = view.database_away_since or asked_at
            if at - max(asked_at, renewer.heard_at) > 2 * every + 1.0:
                self.family.kill(renewer, Why.SILENT)

    def kill_overdue(self) -> None:
        """TERM, then KILL, whoever is past its time, for whatever reason."""
        at = now()
        for child in self.family:
            doom = child.doom(at, self.config, self.course.stop)
            if at >= doom.kill_at:
                self.family.kill(child, doom.why)
                continue
            if at >= child.stack_due_at(doom):
                self.family.ask_stack(child)
            if at >= doom.term_at and child.term_for is None and child.work is not None:
                self.family.interrupt(child, doom.why)

    def hand_back(self) -> None:
        """Whoever is held up by one task does not hoard the others that it claimed: after a second,
        and at a stop, what it has not begun is given back."""
        at, stopping = now(), self.course.stop is not None
        for child in self.family.workers():
            work = child.work
            if work is None or child.handed_back:
                continue
            if stopping or at - work.started_at >= HELD_UP_SECONDS:
                child.handed_back = True
                tokens = _take_tokens(child)
                if tokens or child.done_tasks:
                    self.renewals.hand_back(child.worker, tokens, child.done_tasks)

    def hear(self, event: Event) -> None:
        """What the renewer answers."""
        child = self.family.with_identity(event.worker)
        match event.kind:
            case Kind.RENEWED if child is not None:
                if child.deadline is not None:
                    child.replaced.append(Replaced(child.deadline, now()))
                child.deadline = event.at
                self.family.tell(child, Order.EXTEND, event.at)
            case Kind.TAKEN if child is not None and _still_runs(child, event):
                child.taken = True
            case Kind.ANSWERED:
                self.renewals.answered()
                self.course.view.database_away_since = None
            case Kind.LOST if child is not None:
                self.family.log.warning("lost", f"{child.name} lost its lease", slot=child.slot)
                child.taken = True
            case Kind.HANDED:
                self.renewals.handed(event.count)
                self.course.changed(now())
            case Kind.SETTLED:
                settle = self.renewals.settled(event.worker)
                self.course.changed(now())
                if settle is not None:
                    self.course.settled(settle, Outcome(event.flag), Outcome(event.count))


def _take_tokens(child: Child) -> list[Token]:
    try:
        return unpack_tokens(os.read(child.tokens, MOST_TOKENS * TOKEN_SIZE))
    except BlockingIOError:
        return []


def _still_runs(child: Child, event: Event) -> bool:
    """Whether the claim was taken away, and not ended by itself: ENDING is in the pipe before such an
    answer."""
    work = child.work
    return work is not None and work.is_of(event) and not work.ending
