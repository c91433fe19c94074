"""Workers grouped by the host they are on. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]

COLUMNS = (
    *("host", "state", "workers", "running", "idle", "expired", "silent_seconds"),
    *("rss", "done", "failed"),
)


def by_host(workers: Iterable[Record]) -> list[Record]:
    """One record a host, of records of `workers --json`.

    A host is `lost` when none of its workers was renewed for half its lease, which is at least one
    renewal and a half; it stays so until a sweep has taken its last row.
    """
    groups: dict[str, list[Record]] = {}
    for worker in workers:
        groups.setdefault(worker["host"], []).append(worker)
    return [_host(name, group) for name, group in sorted(groups.items())]


def is_lost(worker: Record) -> bool:
    """Whether more of the lease has passed since its renewal than is left of it."""
    return bool(worker["lease_seconds"] < worker["silent_seconds"])


def _host(name: str, group: Sequence[Record]) -> Record:
    states = [worker["state"] for worker in group]
    return {
        "host": name,
        "state": _state(group, states),
        "workers": len(group),
        **{state: states.count(state) for state in ("running", "idle", "expired")},
        "silent_seconds": min(worker["silent_seconds"] for worker in group),
        **{key: sum(worker[key] or 0 for worker in group) for key in ("rss", "done", "failed")},
    }


def _state(group: Sequence[Record], states: Sequence[str]) -> str:
    if all(map(is_lost, group)):
        return "lost"
    return "running" if "running" in states else "idle"
