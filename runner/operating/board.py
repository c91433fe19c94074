"""The overview as `status` shows it, made from what the store counts. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from .hosts import by_host
from .rates import NO_RATES, total

Record = dict[str, Any]

STATES = ("ready", "scheduled", "running", "dead", "unknown")


def overview(
    database: str,
    counts: Sequence[Record],
    pauses: Sequence[Record],
    workers: Sequence[Record],
    known_types: Collection[str] | None,
    served_queues: Collection[str] | None = None,
    rates: Mapping[str, Record] = MappingProxyType({}),
) -> Record:
    """The object of `status --json`.

    Unknown are ready tasks of types that are not among `known_types` (None: it cannot be told). Which
    queues nobody serves is told while there are workers (`served_queues` None: none). Types that have
    `rates` are there with them, also when none of their tasks is.
    """
    counts = [_with_unknown(one, known_types) for one in counts]
    expired = sum(worker["state"] == "expired" for worker in workers)
    return {
        "database": database,
        **_sum(counts),
        "leases_active": len(workers) - expired,
        "leases_expired": expired,
        "retried": sum(one["retried"] for one in counts),
        "lost_leases": sum(one["lost_leases"] for one in counts),
        **total(rates.values()),
        "pauses": [one | {"ready": _kept_back(one, counts)} for one in pauses],
        "queues": [
            one | {"unserved": _is_unserved(one["name"], workers, served_queues)}
            for one in _by("queue", counts, _paused(pauses, "queue", "type"))
        ],
        "types": [
            one | rates.get(one["name"], NO_RATES)
            for one in _by("type", counts, _paused(pauses, "type", "queue"), rates)
        ],
        "workers": list(workers),
        "hosts": by_host(workers),
    }


def _with_unknown(one: Record, known: Collection[str] | None) -> Record:
    return one | {"unknown": 0 if known is None or one["type"] in known else one["ready"]}


def _is_unserved(name: str, workers: Sequence[Record], served: Collection[str] | None) -> bool:
    return bool(workers) and served is not None and name not in served


def _sum(counts: Iterable[Record]) -> Record:
    counts = list(counts)
    ages = [age for one in counts if (age := one["oldest_ready_seconds"]) is not None]
    totals: Record = {state: sum(one[state] for one in counts) for state in STATES}
    return totals | {"oldest_ready_seconds": max(ages, default=None)}


def _by(
    key: str, counts: Sequence[Record], paused: dict[str, str], also: Iterable[str] = ()
) -> list[Record]:
    """One record a queue or type, also where it is only paused."""
    groups: dict[str, list[Record]] = {name: [] for name in (*paused, *also)}
    for one in counts:
        groups.setdefault(one[key], []).append(one)
    return [
        {"name": name, **_sum(groups[name]), "paused_until": paused.get(name)}
        for name in sorted(groups)
    ]


def _kept_back(pause: Record, counts: Sequence[Record]) -> int:
    """The ready tasks that a pause keeps from being claimed."""
    return sum(
        one["ready"]
        for one in counts
        if pause["queue"] in (None, one["queue"]) and pause["type"] in (None, one["type"])
    )


def _paused(pauses: Sequence[Record], key: str, other: str) -> dict[str, str]:
    """Those that are paused as a whole."""
    return {one[key]: one["paused_until"] for one in pauses if one[key] and one[other] is None}
