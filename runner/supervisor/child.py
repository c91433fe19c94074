"""What the parent knows of one child, and the one time at which it is due to die. Pure."""

import enum
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from ..config import HARD_LIMIT_SECONDS, FleetConfig
from ..postmortem import AHEAD_SECONDS
from ..seat import hand_of
from ..wire import NO_ID, Event, How, Kind, Token
from .role import Role


class Why(enum.Enum):
    """Reasons for which the parent ends a child, with the words that a person reads."""

    LEASE = "lease lost"
    LIMIT = "time limit"
    DEAF = "killed by its lease timer: it could not hear that its lease was extended"
    TAKEN = "its task was taken away"
    STOP = "stopped"
    SILENT = "silent"
    BOOT = "did not report ready in time"


TIMER_SECONDS = 0.15  # from the kernel timer of a child to our hearing of its death
TOLD_SECONDS = 1.0  # from an order to a child that can hear


@dataclass(slots=True)
class Work:
    """The task that a worker has begun, as its events told."""

    task: int
    fence: int
    started_at: float
    limit_at: float | None
    ending: bool = False
    progress: tuple[int, int] | None = None  # so much of so much, as its handler told

    def is_of(self, event: Event) -> bool:
        """Whether an event speaks of this claim."""
        return self.fence == event.fence and self.task == event.task


class Doom(NamedTuple):
    """When a child is asked to stop (TERM), when it is killed, and why."""

    # A tuple: each turn of the parent makes a few for every child.
    term_at: float
    kill_at: float
    why: Why


class Replaced(NamedTuple):
    """A deadline, and when another was sent in its place."""

    deadline: float
    at: float


NOT_AT_ALL = float("inf")
NEVER = Doom(NOT_AT_ALL, NOT_AT_ALL, Why.STOP)


def _earlier(first: Doom, second: Doom) -> Doom:
    """Whichever kills first; of two at once the first one's reason is told."""
    return first if first.kill_at <= second.kill_at else second


@dataclass(slots=True)
class Stop:
    """The stop of the fleet: since when, and since when by force."""

    at: float
    forced_at: float | None = None


@dataclass(slots=True)
class Child:
    """One process: who it is, what it said, and until when it may live. Times are local."""

    role: Role
    slot: int
    incarnation: int
    pid: int
    started_at: float
    heard_at: float
    control: int = -1  # fd, written by the parent
    life: int = -1  # fd, held open by the parent and never written
    output: int = -1  # fd, read by the parent
    tokens: int = -1  # fd, read by the parent to give back what has not begun
    stack: int = -1  # fd, where it writes the stack of its handler
    asked_stack_of: int = 0  # the fence of the attempt whose stack was asked for
    hello_at: float | None = None
    worker: bytes = NO_ID
    former: list[bytes] = field(default_factory=list)  # identities that it has to settle itself
    registered: bool = False
    deadline: float | None = None  # D: lease_until on this clock
    replaced: deque[Replaced] = field(
        default_factory=lambda: deque(maxlen=16)
    )  # deadlines before it
    work: Work | None = None
    sent: Work | None = None  # the one before: its COMMIT was sent, and its end is not told yet
    idle: bool = False  # it looked and holds nothing
    idle_look: float = 0.0  # when its last look that was full and empty began
    asked_to_look_at: float = 0.0
    done_tasks: deque[Token] = field(default_factory=deque)  # through, and not deleted yet
    handed_back: bool = False  # the rest of its batch was taken back
    taken: bool = False  # its claim is no longer its own
    refused: int = 0  # the exit code it announced
    stopping: bool = False  # was told to stop
    spare: bool = False  # of the two that may share a slot for a moment
    follows: int = 0  # the incarnation of the one that it is to replace
    outdated: bool = False  # it runs old code
    worn: bool = False  # it has grown too large
    spent: bool = False  # it has done all that it is to do, and begins nothing more
    rss: int = 0  # bytes, as last heard
    type: int = 0  # the number of the type of the task that it began last
    done: int = 0
    failed: int = 0
    term_for: Why | None = None  # TERM was sent
    kill_for: Why | None = None  # KILL was sent

    @property
    def hand(self) -> int:
        """Where it keeps its permits; an heir has another one than whom it follows."""
        return hand_of(self.slot, self.spare)

    @property
    def name(self) -> str:
        """What logs call it."""
        return f"{self.role.name} {self.slot}" if self.role.holds_leases else self.role.name

    def hear(self, event: Event, now: float) -> None:
        """Take in what it said. The most frequent kinds come first."""
        self.heard_at = now
        match event.kind:
            case Kind.STARTED:
                self._begin(event, now)
            case Kind.ENDING if self.work and self.work.is_of(event):
                self.work.ending = True
            case Kind.FINISHED:
                self._finish(event)
            case Kind.DONE:
                self.done_tasks.append(Token(event.task, event.fence))
                if self.work and self.work.is_of(event):
                    self.work = None
            case Kind.CLAIMED:
                self.idle = self.handed_back = False
            case Kind.CLEARED:
                for _ in range(min(event.count, len(self.done_tasks))):
                    self.done_tasks.popleft()
            case Kind.PROGRESS if self.work and self.work.task == event.task:
                self.work.progress = (event.count, event.fence)
            case Kind.IDLE:
                self.work = None
                self.idle = True
                self.idle_look = event.at if event.flag else self.idle_look
            case Kind.HELLO:
                self.hello_at = self.hello_at or now
                self._take_identity(event.worker)
            case Kind.REGISTERED:
                self._register()
            case Kind.WORN:
                self.worn, self.spent, self.rss = True, bool(event.flag), event.count
            case Kind.REFUSED:
                self.refused = event.flag

    def _finish(self, event: Event) -> None:
        if self.sent and self.sent.is_of(event):
            self.sent = None
        if self.work and self.work.is_of(event):
            self.work = None
            self.taken = False  # that task's; a row that is gone is found out again

    def _begin(self, started: Event, now: float) -> None:
        self.sent = self.work if self.work and self.work.ending else None
        self.work = Work(started.task, started.fence, now, started.at or None)
        self.type = started.count
        self.idle = self.taken = False
        self.term_for = None  # it was meant for the task before

    def _take_identity(self, worker: bytes) -> None:
        """The id under which it will register: its first, or the next one after its connection broke."""
        if self.worker != NO_ID:
            self.former.append(self.worker)
        self.worker = worker
        self.registered = False
        self.deadline = None
        self.replaced.clear()
        if self.work is not None:
            self.work.ending = True  # its handler is over; its row is settled soon

    def _register(self) -> None:
        """Its row is written. Before that it settled its former identities itself, and with them what
        it was through with and what it had begun."""
        self.registered = True
        self.former.clear()
        self.done_tasks.clear()
        self.work = self.sent = None

    def stack_due_at(self, doom: Doom) -> float:
        """When to ask where its handler stands: before a kill, once an attempt."""
        if self.work is None or self.work.fence == self.asked_stack_of:
            return NOT_AT_ALL
        return doom.kill_at - AHEAD_SECONDS

    def doom(self, now: float, config: FleetConfig, stop: Stop | None) -> Doom:
        """The earliest end that anything demands of this child; never stored, always derived."""
        found = self._over_time_or_silent(config)
        if stop is not None and self.stopping:
            found = _earlier(found, self._stopped(config, stop))
        if self.work is not None and self.deadline is not None and "no-kill" not in config.unsafe:
            lease = Doom(self.deadline - config.kill_grace, self.deadline, Why.LEASE)
            found = _earlier(lease, found)
        if self.taken:
            why = Why.TAKEN if self.work is not None else Why.LEASE
            found = _earlier(Doom(now, now, why), found)
        return found

    def _over_time_or_silent(self, config: FleetConfig) -> Doom:
        work = self.work
        if work is not None and not work.ending:
            if work.limit_at is None:
                return NEVER
            return Doom(work.limit_at, work.limit_at + HARD_LIMIT_SECONDS, Why.LIMIT)
        if self.hello_at is None:
            return Doom(NOT_AT_ALL, self.heard_at + config.boot_timeout_seconds, Why.BOOT)
        return Doom(NOT_AT_ALL, self.heard_at + self.role.silent_seconds, Why.SILENT)

    def _stopped(self, config: FleetConfig, stop: Stop) -> Doom:
        if stop.forced_at is not None:
            return Doom(stop.forced_at, stop.forced_at + 0.5, Why.STOP)
        grace = config.grace_seconds
        return Doom(stop.at + grace, stop.at + grace + config.kill_grace, Why.STOP)

    def how_it_ended(self, now: float, killed_by_timer: bool) -> How:
        """What its death means for the claim it had begun."""
        why = self.kill_for or self.term_for
        if killed_by_timer and (self.past_its_lease(now) or self.was_deaf(now)):
            return How.LEASE_LOST
        if self.former and self.work is not None:
            return How.DISCONNECTED  # its handler was over before, for no fault of its own
        match why:
            case Why.LEASE | Why.TAKEN:
                return How.LEASE_LOST
            case Why.STOP:
                return How.STOPPED
            case _ if self.sent is not None and self.work is not None and self.work.ending:
                return How.DISCONNECTED  # while it waited for the COMMIT of the one before
            case _:
                return How.DIED

    def past_its_lease(self, now: float) -> bool:
        """Whether its lease has ended on this clock."""
        return self.deadline is not None and now >= self.deadline

    def was_deaf(self, now: float) -> bool:
        """Whether it died exactly at a deadline that has been extended since: its timer struck,
        because the thread that hears of extensions did not come to run (the GIL held in C).

        Not where its task began after the extension: that was heard, and something else killed it.
        """
        return any(
            one.deadline <= now <= one.deadline + TIMER_SECONDS
            and (self.work is None or self.work.started_at <= one.at + TOLD_SECONDS)
            for one in self.replaced
        )
