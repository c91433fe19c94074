"""Everything that one frame is made from, and what is derived from it. Pure: times are local."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .rates import Meter
from .snapshot import Record, Snapshot
from .state import Row, State

# The times of what was counted, and which way they run.
AGES = {"oldest_ready_seconds": 1, "dead_seconds": 1, "next_try_seconds": -1}


@dataclass(slots=True)
class Scene:
    """What is known just now. `fleet`: the last message of the parent, None where there is none."""

    state: State
    host: str
    owns_fleet: bool = False
    database: str = ""
    snapshot: Snapshot | None = None
    fleet: Record | None = None
    trouble: str | None = None  # the database does not answer, and why
    trouble_since: float = 0.0
    log: Sequence[Record] = ()
    meter: Meter = field(default_factory=Meter)

    def stopping(self) -> str | None:
        """Why the fleet is being stopped, if it is."""
        return self.fleet["stopping"] if self.fleet else None

    def running(self) -> int:
        """How many tasks this fleet, or else everybody, has in hand: as the parent or the database says,
        whoever of them has heard of more."""
        if self.fleet is None:
            return self.snapshot.status["running"] if self.snapshot else 0
        told = sum(one["task"] is not None for one in self.fleet["workers"])
        seen = self.snapshot.status["workers"] if self.snapshot else ()
        ours = (one for one in seen if one["runner"] == self.fleet["runner"])
        return int(max(told, sum(one["state"] == "running" for one in ours)))

    def workers(self, now: float) -> list[Record]:
        """One record a worker: the names of `workers --json`, and progress, limit and own."""
        fleet = {one["pid"]: one for one in self.fleet["workers"]} if self.fleet else {}
        seen = self.snapshot.status["workers"] if self.snapshot else ()
        found = []
        for one in seen:
            ours = self.fleet is not None and one["runner"] == self.fleet["runner"]
            own = fleet.pop(one["pid"], None) if ours else None
            died = ours and own is None and self._parent_said_last()
            found.append(self._worker(one, own, now) | ({"state": "ended"} if died else {}))
        found += [self._unregistered(one, now) for one in fleet.values()]
        if self.fleet is not None:  # ours first
            found.sort(key=lambda one: (not one["own"], one["host"] or "", one["slot"]))
        return found

    def hosts(self) -> Sequence[Record]:
        """One record a host, where there is more than one: as the database said. Nobody is called lost
        because we have not asked since."""
        seen: Sequence[Record] = self.snapshot.status.get("hosts", ()) if self.snapshot else ()
        return seen if len(seen) > 1 else ()

    def _parent_said_last(self) -> bool:
        """The parent has spoken since the database has: whom it does not name is gone, and not new."""
        assert self.fleet is not None
        return self.snapshot is None or bool(self.fleet["at"] > self.snapshot.taken_at)

    def _worker(self, one: Record, own: Record | None, now: float) -> Record:
        assert self.snapshot is not None
        passed = now - self.snapshot.taken_at
        merged = one | {"progress": one.get("progress"), "limit_seconds": None, "own": False}
        if one["lease_seconds"] is not None:
            merged["lease_seconds"] = one["lease_seconds"] - passed
        return merged if own is None else merged | self._own(one, own, now)

    def _own(self, one: Record, own: Record, now: float) -> Record:
        """What the parent knows better than the database, or knows alone while that is away."""
        known: Record = {"own": True, "done": own["done"], "failed": own["failed"]}
        if own["rss"]:
            known["rss"] = own["rss"]
        if own["stopping"]:
            known["state"] = "stopping"
        if own["task"] is not None and (own["task"] == one["task"] or self.trouble):
            known |= _work(own, now) | ({"state": "running"} if self.trouble else {})
            if own["task"] != one["task"]:
                known |= {"type": None, "attempt": None}
        elif own["task"] is None and self.trouble:
            nothing = ("task", "type", "attempt", "run_seconds")
            known |= dict.fromkeys(nothing) | {"state": known.get("state", "idle")}
        return known

    def _unregistered(self, own: Record, now: float) -> Record:
        """A worker of ours that the database has not told of."""
        state = "stopping" if own["stopping"] else "idle" if own["ready"] else "starting"
        nothing = ("runner", "task", "type", "attempt", "run_seconds", "progress", "limit_seconds")
        deadline = own["deadline"]
        known = dict.fromkeys(nothing) | {
            "host": self.host,
            "pid": own["pid"],
            "slot": own["slot"],
            "state": "running" if own["task"] is not None else state,
            "lease_seconds": None if deadline is None else deadline - now,
            "rss": own["rss"],
            "done": own["done"],
            "failed": own["failed"],
            "own": True,
        }
        return known | (_work(own, now) if own["task"] is not None else {})

    def rows(self, now: float) -> list[Row]:
        """What can be pointed at in this view, from top to bottom."""
        rows: list[Row] = []
        shown = self.state.view
        if shown in (1, 2):
            rows += [Row("host", one["host"], one) for one in self.hosts()]
            rows += [Row("worker", (one["host"], one["pid"]), one) for one in self.workers(now)]
        if self.snapshot is None:
            return rows
        status = self.snapshot.status
        if shown == 3:
            rows += [Row("queue", one["name"], one) for one in status["queues"]]
        if shown in (1, 3):
            rows += [Row("type", one["name"], one) for one in status["types"]]
        if shown in (1, 4):
            rows += [Row("dead", one["id"], one) for one in self.snapshot.dead]
        return [replace(row, record=self.in_time(row.record, now)) for row in rows]

    def in_time(self, one: Record, now: float) -> Record:
        """What was counted, with its times as of now: they pass while the database is away, too."""
        assert self.snapshot is not None
        passed = now - self.snapshot.counted_at
        times = {name: one[name] for name in AGES if one.get(name) is not None}
        return one | {name: max(0.0, told + AGES[name] * passed) for name, told in times.items()}


def _work(own: Record, now: float) -> Record:
    limit_at = own["limit_at"]
    return {
        "task": own["task"],
        "run_seconds": now - own["started_at"],
        "progress": own["progress"],
        "limit_seconds": None if limit_at is None else limit_at - own["started_at"],
    }
