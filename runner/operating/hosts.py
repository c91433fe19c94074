"""Workers grouped by the host they are on. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from ..text import safe
from ..units import duration

Record = dict[str, Any]

LOST = "its lease was not renewed for {}: its host or parent is perhaps gone"
SHOWN = 8

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
    return is_silent(worker["lease_seconds"], worker["silent_seconds"])


def is_silent(lease_seconds: float, silent_seconds: float) -> bool:
    """The same, of what is left of a lease and the time since its renewal."""
    return lease_seconds < silent_seconds


def notices(workers: Iterable[Record]) -> list[str]:
    """A sentence for each host whose workers look alive, and are not renewed."""
    silent = [one for one in workers if one["state"] != "expired" and is_lost(one)]
    hosts = {one["host"]: [] for one in silent}  # type: dict[str, list[Record]]
    for one in silent:
        hosts[one["host"]].append(one)
    return [f"{safe(name, 255)}: {_of(group)}" for name, group in sorted(hosts.items())]


def _of(group: Sequence[Record]) -> str:
    pids = sorted({one["pid"] for one in group})
    who = f"pid {', '.join(map(str, pids[:SHOWN]))}{' …' if len(pids) > SHOWN else ''}"
    return f"{who}: {LOST.format(duration(max(one['silent_seconds'] for one in group)))}"


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
