"""The overview and the counts as Prometheus text (exposition format 0.0.4). Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..tally import UPPER_BOUNDS

Record = Mapping[str, Any]
Sample = tuple[str, Mapping[str, str], float]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES = ("ready", "scheduled", "running", "dead")
ENDS = ("done", "failed", "released", "lost")
_EVERY = 4  # of our buckets: a bound every two octaves is enough to alert on


def exposition(seen: Record, totals: Sequence[Record]) -> str:
    """What `seen` (the object of `status --json`) and `totals` (counts of all time by type) say."""
    return "".join(_lines(seen, totals))


def nothing() -> str:
    """All that can be said while the database does not answer."""
    return "".join(_family("up", "gauge", "Whether the database answered.", [("", {}, 0.0)]))


def _lines(seen: Record, totals: Sequence[Record]) -> Iterator[str]:
    yield from _family("up", "gauge", "Whether the database answered.", [("", {}, 1.0)])
    yield from _tasks(seen["queues"], seen["types"])
    yield from _obstacles(seen["queues"], seen["types"])
    for name, text in (
        ("retried", "Waiting tasks that have failed before."),
        ("lost_leases", "Tasks whose last attempt lost its lease."),
    ):
        yield from _family(name, "gauge", text, [("", {}, seen[name])])
    yield from _family(
        "leases",
        "gauge",
        "Leases of workers; an expired one is of a worker that is gone or cut off.",
        [("", {"state": state}, seen[f"leases_{state}"]) for state in ("active", "expired")],
    )
    yield from _workers(seen["workers"])
    yield from _totals(totals)


def _tasks(queues: Sequence[Record], types: Sequence[Record]) -> Iterator[str]:
    """How many there are, and how long they wait."""
    for name, text, kind, ones in (
        ("tasks", "Tasks by queue and state.", "queue", queues),
        ("type_tasks", "Tasks by type and state.", "type", types),
    ):
        counts = [
            ("", {kind: one["name"], "state": state}, one[state])
            for one in ones
            for state in STATES
        ]
        yield from _family(name, "gauge", text, counts)
    yield from _family(
        "oldest_ready_seconds",
        "gauge",
        "For how long the oldest ready task of a queue has been due; 0 where none is.",
        [("", {"queue": one["name"]}, one["oldest_ready_seconds"] or 0) for one in queues],
    )


def _obstacles(queues: Sequence[Record], types: Sequence[Record]) -> Iterator[str]:
    """What keeps tasks from being claimed."""
    yield from _family(
        "unknown_tasks",
        "gauge",
        "Ready tasks of types that no living worker has a handler for.",
        [("", {"type": one["name"]}, one["unknown"]) for one in types],
    )
    yield from _family(
        "paused",
        "gauge",
        "1 for a queue or type that is paused.",
        [
            ("", {kind: one["name"]}, float(one["paused_until"] is not None))
            for kind, ones in (("queue", queues), ("type", types))
            for one in ones
        ],
    )


def _workers(workers: Sequence[Record]) -> Iterator[str]:
    by_host: dict[tuple[str, str], int] = {}
    memory: dict[str, int] = {}
    for one in workers:
        key = (one["host"], one["state"])
        by_host[key] = by_host.get(key, 0) + 1
        memory[one["host"]] = memory.get(one["host"], 0) + one["rss"]
    counted = [
        ("", {"host": host, "state": state}, float(n)) for (host, state), n in by_host.items()
    ]
    yield from _family("workers", "gauge", "Workers by host and state.", counted)
    yield from _family(
        "workers_rss_bytes",
        "gauge",
        "Resident memory of the workers of a host, as last written with a renewal.",
        [("", {"host": host}, float(size)) for host, size in memory.items()],
    )


def _totals(totals: Sequence[Record]) -> Iterator[str]:
    yield from _family(
        "attempts_total",
        "counter",
        "Attempts that ended, by type and by how they ended.",
        [("", {"type": one["type"], "end": end}, one[end]) for one in totals for end in ENDS],
    )
    yield from _family(
        "dead_total",
        "counter",
        "Tasks that became dead, by type.",
        [("", {"type": one["type"]}, one["dead"]) for one in totals],
    )
    yield from _family(
        "attempt_seconds",
        "histogram",
        "How long attempts took that were done or failed, by type.",
        [sample for one in totals for sample in _histogram(one)],
    )


def _histogram(one: Record) -> Iterator[Sample]:
    labels, counts = {"type": one["type"]}, one["durations"]
    for bucket in range(_EVERY - 1, len(counts) - 1, _EVERY):
        bound = {"le": f"{UPPER_BOUNDS[bucket]:.6g}"}
        yield "_bucket", labels | bound, sum(counts[: bucket + 1])
    yield "_bucket", labels | {"le": "+Inf"}, sum(counts)
    yield "_sum", labels, one["seconds"]
    yield "_count", labels, sum(counts)


def _family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP runner_{name} {text}\n# TYPE runner_{name} {kind}\n"
    for suffix, labels, value in samples:
        inside = ",".join(f'{label}="{_escaped(found)}"' for label, found in labels.items())
        shown = f"{{{inside}}}" if inside else ""
        yield f"runner_{name}{suffix}{shown} {float(value):.17g}\n"


def _escaped(value: str) -> str:
    # The format knows these three; everything else is UTF-8 as it is, and a reader of lines would take
    # the other line ends for one.
    value = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return "".join(c if c.isprintable() else f"\\\\x{ord(c):x}" for c in value)
