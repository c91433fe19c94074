"""The settings of a fleet and the times that follow from them; values are checked where they arrive."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import cgroup
from .backoff import Backoff
from .errors import UsageError

HARD_LIMIT_SECONDS = 5.0  # from the soft time limit to the kill
ALIVE_SECONDS = 10.0  # every role says ALIVE at least this often
SILENT_SECONDS = 30.0  # a role that said nothing for so long is killed and replaced
STATEMENT_SECONDS = 3.0
LOCK_SECONDS = 1.0
CONNECT_SECONDS = 3
HELPERS = 5  # connections of a fleet beside one for each worker


@dataclass(frozen=True)
class Queue:
    """A queue that the fleet serves; `workers` of its own, None = shares the rest."""

    name: str
    workers: int | None = None


@dataclass(frozen=True)
class Drain:
    """What a drain adds to a fleet."""

    max_seconds: float | None = None
    max_tasks: int | None = None
    wait_retries_seconds: float | None = None
    linger_seconds: float = 0.0
    snapshot: bool = False


@dataclass(frozen=True)
class FleetConfig:
    """Everything that the processes of one fleet share. Times in seconds, sizes in bytes."""

    dsn: str = field(repr=False)
    app: str | None
    app_dir: str = "."
    procs: int = 1
    queues: tuple[Queue, ...] = ()
    priorities: Mapping[str, int] = field(default_factory=dict)
    fair: float = 0.05
    lease_seconds: float = 30.0
    renew_seconds: float | None = None
    backoff: Backoff = Backoff()
    grace_seconds: float = 25.0
    timeout_seconds: float | None = 3600.0
    poll_seconds: float = 1.0
    listen: bool = True
    max_tasks_per_child: int | None = None
    max_memory_per_child: int | None = None
    boot_timeout_seconds: float = 60.0
    preload: bool = False  # the app is imported before the fork
    keep_receipts_seconds: float = 90 * 86400.0  # infinite: forever
    connection_seconds: float = 1800.0  # how old a connection of a worker or the renewer may get
    metrics: tuple[str, int] | None = None  # host and port to serve them on
    metrics_file: str | None = None
    log_format: str = "text"
    log_level: str = "info"
    drain: Drain | None = None
    unsafe: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        check_lease(self.lease_seconds, self.renew_every)
        own = sum(queue.workers or 0 for queue in self.queues)
        if own > self.procs:
            raise UsageError(f"--queue asks for {own} workers, --procs gives {self.procs}")
        if any(queue.workers is None for queue in self.queues) and own == self.procs:
            raise UsageError("no worker is left for the queues without a number of their own")

    @property
    def helpers(self) -> int:
        """Connections beside one for each worker."""
        return HELPERS + bool(self.metrics or self.metrics_file)

    @property
    def renew_every(self) -> float:
        """R: seconds between renewals."""
        return self.renew_seconds if self.renew_seconds is not None else self.lease_seconds / 6

    @property
    def margin(self) -> float:
        """M: seconds by which a local deadline comes before the lease's end in the database."""
        return max(1.0, self.lease_seconds / 10)

    @property
    def usable(self) -> float:
        """L - M: seconds that a renewal is good for, counted from before it was sent."""
        return self.lease_seconds - self.margin

    @property
    def kill_grace(self) -> float:
        """Seconds from TERM to KILL."""
        return min(2.0, self.usable / 3)

    @property
    def claim_seconds(self) -> float:
        """Bound of the claim statement."""
        return min(2.0, self.usable / 2)

    @property
    def renewal_seconds(self) -> float:
        """Bound of the renewal statement."""
        return min(STATEMENT_SECONDS, self.usable / 3)

    def queues_of_slot(self, slot: int) -> tuple[str, ...] | None:
        """The queues that the worker in this slot claims from; None = every queue."""
        if not self.queues:
            return None
        first = 0
        for queue in self.queues:
            if queue.workers is not None:
                if first <= slot < first + queue.workers:
                    return (queue.name,)
                first += queue.workers
        return tuple(queue.name for queue in self.queues if queue.workers is None)


def check_lease(lease_seconds: float, renew_seconds: float) -> None:
    """Refuse a lease that cannot be kept: UsageError."""
    if lease_seconds < 3:
        raise UsageError(f"--lease {lease_seconds:g}s is too short: at least 3s")
    if not 0 < renew_seconds <= lease_seconds / 3:
        raise UsageError(
            f"--renew {renew_seconds:g}s must be above 0 and at most a third of"
            f" --lease {lease_seconds:g}s"
        )


def available_cpus() -> int:
    """CPUs that this process may use: by affinity, and by the cgroup's quota where there is one."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        count = os.cpu_count() or 1
    quota = cgroup.cpus()
    return max(1, min(count, quota) if quota else count)
