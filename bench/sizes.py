"""How much of everything: the real measurement, a quick look, and hardly anything (for tests)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Numbers of tasks and samples, and seconds."""

    repeat: int
    tasks: int  # waiting at the start of a throughput run
    most_seconds: float  # a throughput run is cut here
    floor_tasks: int  # of the floor that claims 50; the slower ones get an eighth
    samples: int  # of latency
    backlogs: tuple[int, ...]  # waiting at the end of each claim-rate run
    backlog_tasks: int  # done in each of these
    pinned: int
    trickle: int  # tasks one by one, for the buffers of a claim
    quiet_seconds: float  # the fleet does nothing, for the buffers of a poll
    later_seconds: float
    enqueue: int
    bulk: int
    write_seconds: float
    idle_seconds: float
    memory: int
    starts: int
    processes: tuple[int, ...]


FULL = Sizes(
    repeat=3,
    tasks=300_000,
    most_seconds=10.0,
    floor_tasks=400_000,
    samples=2_000,
    backlogs=(5_000, 100_000, 1_000_000),
    backlog_tasks=30_000,
    pinned=300_000,
    trickle=50,
    quiet_seconds=10.0,
    later_seconds=10.0,
    enqueue=10_000,
    bulk=200_000,
    write_seconds=5.0,
    idle_seconds=20.0,
    memory=1_100_000,
    starts=5,
    processes=(1, 2, 4, 8),
)
QUICK = Sizes(
    repeat=1,
    tasks=60_000,
    most_seconds=2.5,
    floor_tasks=64_000,
    samples=200,
    backlogs=(5_000, 50_000),
    backlog_tasks=8_000,
    pinned=30_000,
    trickle=20,
    quiet_seconds=2.0,
    later_seconds=2.0,
    enqueue=2_000,
    bulk=50_000,
    write_seconds=1.0,
    idle_seconds=5.0,
    memory=40_000,
    starts=2,
    processes=(1, 4),
)
TINY = Sizes(
    repeat=1,
    tasks=300,
    most_seconds=5.0,
    floor_tasks=1_600,
    samples=10,
    backlogs=(100, 400),
    backlog_tasks=200,
    pinned=500,
    trickle=5,
    quiet_seconds=0.5,
    later_seconds=0.2,
    enqueue=50,
    bulk=500,
    write_seconds=0.3,
    idle_seconds=0.5,
    memory=300,
    starts=1,
    processes=(1, 2),
)
