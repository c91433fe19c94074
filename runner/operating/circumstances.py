"""A task's row and what bears on it: what `explain` goes by. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause that holds: of a queue, of a type, or of a type in a queue."""

    queue: str | None
    type: str | None
    until: str | None  # None: until resumed


@dataclass(frozen=True, slots=True)
class Holder:
    """The worker that a running task names; `lease_seconds` below zero: it has ended."""

    host: str
    pid: int
    slot: int
    lease_seconds: float
    others: int = 0  # further tasks that it holds
    silent_seconds: float = 0.0  # since its lease was renewed


@dataclass(frozen=True, slots=True)
class Staff:
    """Workers whose lease holds, each count narrower than the one before but `knowing`."""

    workers: int = 0
    serving: int = 0  # claim from the task's queue
    knowing: int = 0  # have a handler for its type
    able: int = 0  # both
    idle: int = 0  # able, and hold nothing
    fit: int = 0  # idle, with enough of their lease left to claim
    leaving: int = 0  # fit, but of a drain in which the task has failed already


@dataclass(frozen=True, slots=True)
class Facts:
    """A task's row and what bears on it, all of one moment."""

    task_id: int
    state: str
    queue: str = "default"
    type: str = ""
    priority: int = 5
    attempt: int = 0
    max_attempts: int | None = None
    released: int = 0
    cause: str | None = None
    error: str | None = None
    run_at: str = ""
    due_in_seconds: float = 0.0
    run_seconds: float = 0.0
    pause: Pause | None = None
    holder: Holder | None = None
    staff: Staff = Staff()
    ahead: int = 0  # ready tasks of smaller priority that those who can take it take first
    beside: int = 0  # others of the same priority
    known_here: bool | None = None  # to the app that loads where this is asked; None: none does
