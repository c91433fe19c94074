"""What the database said at one moment, and how fast things go by it. Pure: times are local."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from .rates import Meter

Record = dict[str, Any]


STALE_SECONDS = 5.0  # beyond the interval: figures of the database are called old


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the database said: the object of `status --json`, the last dead, and what fails now.

    `taken_at`: when the workers were looked at; `counted_at`: when the tasks were counted, which is
    done less often where it takes long.
    """

    taken_at: float
    counted_at: float
    status: Record
    dead: Sequence[Record] = ()
    failing: Sequence[Record] = ()


def snapshot_of(look: Record) -> Snapshot:
    """The answer of the child that asks the database."""
    names = ("taken_at", "counted_at", "status", "dead", "failing")
    return Snapshot(**{name: look[name] for name in names})


def counters(snapshot: Snapshot) -> dict[Hashable, tuple[int, int]]:
    """What each worker has done, as its row says since its last renewal."""
    return {
        (one["host"], one["pid"]): (one["done"], one["failed"])
        for one in snapshot.status["workers"]
    }


def speeds(status: Record, meter: Meter, now: float) -> tuple[float | None, float | None]:
    """Done and failed a second: as the database says where it does, else from the totals seen."""
    told = status.get("done_per_second"), status.get("failed_per_second")
    measured = meter.per_second(now)
    return told if measured is None else measured
