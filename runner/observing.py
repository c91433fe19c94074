"""When a lease may be taken from its holder. Pure: the clock is an argument.

The database's word alone is not enough: its clock may jump, and after a failover it may have forgotten
renewals. A lease is taken only when the database says that it has ended AND this observer has seen that
very value unchanged for half a lease on its own clock. Watching needs no lock; only taking does.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Lease(Generic[Id]):
    """A lease as the database shows it."""

    id: Id
    until: Hashable  # compared for change only
    ended: bool  # by the database's clock
    ends_in_seconds: float  # negative when it has ended
    length_seconds: float


@dataclass
class Observer(Generic[Id]):
    """Remembers since when each lease has stood still."""

    _seen: dict[Id, tuple[Hashable, float]] = field(default_factory=dict)

    def look(self, leases: Iterable[Lease[Id]], now: float) -> tuple[list[Lease[Id]], float]:
        """The leases that may be taken now, and the local time of the next one that may."""
        seen: dict[Id, tuple[Hashable, float]] = {}
        ripe: list[Lease[Id]] = []
        next_at = float("inf")
        for lease in leases:
            until, since = self._seen.get(lease.id, (None, now))
            if until != lease.until:
                since = now
            seen[lease.id] = (lease.until, since)
            ripe_at = since + lease.length_seconds / 2
            if lease.ended and now >= ripe_at:
                ripe.append(lease)
            else:
                end_at = now if lease.ended else now + lease.ends_in_seconds
                next_at = min(next_at, max(ripe_at, end_at))
        self._seen = seen
        return ripe, next_at
