"""Scenes for tests of the live view: a fleet at work with trouble in it, and hostile ones."""

from typing import Any

from runner.console.scene import Scene
from runner.console.snapshot import Snapshot
from runner.console.state import State
from runner.operating.hosts import by_host

NOW = 10_000.0
CLOCK = 1_790_000_000.0  # 13:33:20 in UTC
HOST = "alpha"


def worker(slot: int, pid: int, state: str = "running", **more: Any) -> dict[str, Any]:
    """One row of `workers --json`."""
    nothing = dict.fromkeys(("task", "type", "attempt", "run_seconds"))
    facts = {"host": HOST, "runner": "r1", "lease_seconds": 25.0, "rss": 32 << 20}
    named = {"done": 0, "failed": 0, "pid": pid, "slot": slot, "state": state}
    made = nothing | facts | named | more
    return {"silent_seconds": 30.0 - made["lease_seconds"]} | made


def kind(name: str, **more: Any) -> dict[str, Any]:
    """One row of queues or types."""
    none = dict.fromkeys(("ready", "scheduled", "running", "dead", "unknown"), 0)
    return {"name": name, "oldest_ready_seconds": None, "paused_until": None} | none | more


def dead(task: int, task_type: str, cause: str, error: str, ago: float) -> dict[str, Any]:
    """One dead task."""
    return {"id": task, "type": task_type, "queue": "default", "attempt": 3, "cause": cause} | {
        "last_error": error,
        "dead_seconds": ago,
    }


def status(workers: list[Any], queues: list[Any], types: list[Any], **more: Any) -> dict[str, Any]:
    """The object of `status --json`."""
    sums = {
        name: sum(one[name] for one in types)
        for name in ("ready", "scheduled", "running", "dead", "unknown")
    }
    rates = {"done_per_second": 112.5, "failed_per_second": 1.25}
    leases = {"leases_active": len(workers), "leases_expired": 0}
    ages = {"oldest_ready_seconds": 74.0}
    queues = [{"unserved": False} | one for one in queues]
    pauses = [
        {"queue": None, "type": None, word: one["name"]} | {"ready": one["ready"]}
        for word, some in (("queue", queues), ("type", types))
        for one in some
        if one["paused_until"]
    ]
    lists = {
        "pauses": pauses,
        "queues": queues,
        "types": types,
        "workers": workers,
        "hosts": by_host(workers),
    }
    return sums | rates | leases | ages | lists | more


def night_shift(state: State | None = None) -> Scene:
    """Workers at good, slow, failing and hanging tasks; one has just died; a queue is paused."""
    workers = [
        worker(0, 4100, task=801, type="resize_photo", attempt=1, run_seconds=0.031, done=1204),
        worker(
            1, 4101, task=77, type="import_feed", attempt=2, run_seconds=191.0, done=3, failed=1
        ),
        worker(2, 4102, task=90, type="sync_crm", attempt=1, run_seconds=55.0, done=12),
        worker(3, 4180, "idle", lease_seconds=29.5),
    ]
    queues = [
        kind("default", ready=1250, scheduled=40, running=3, dead=7, oldest_ready_seconds=74.0),
        kind("reports", ready=12, paused_until="2026-09-21T14:30:00+00:00", unserved=True),
    ]
    fast = {"done_per_second": 112.0, "p50_seconds": 0.028, "p95_seconds": 0.081}
    types = [
        kind("import_feed", running=1),
        kind("not_there_yet", ready=12, unknown=12, oldest_ready_seconds=74.0),
        kind("resize_photo", ready=1250, scheduled=40, running=1, oldest_ready_seconds=9.0, **fast),
        kind("send_invoice", dead=6),
        kind("sync_crm", running=1, dead=1),
    ]
    refused = "ConnectionError: smtp.example.com:587 refused the connection"
    gone = [
        dead(812, "sync_crm", "SIGKILL (perhaps out of memory)", "", 12.0),
        dead(640, "send_invoice", "ConnectionError", refused, 93.0),
        dead(639, "send_invoice", "ConnectionError", refused, 95.0),
    ]
    retried = {"type": "send_invoice", "count": 4, "cause": "ConnectionError", "error": refused}
    failing = [retried | {"next_try_seconds": 3.5}]
    scene = Scene(state or State(), HOST, True, "shop@db1")
    scene.snapshot = Snapshot(NOW - 0.5, NOW - 0.5, status(workers, queues, types), gone, failing)
    scene.fleet = fleet([(0, 4100, 801, 0.0), (1, 4101, 77, 191.0), (2, 4102, 90, 55.0)])
    scene.log = [
        line("warning", "worker 3 ended in task 812: SIGKILL (perhaps out of memory)"),
        line("info", "row 150 of 900", role="worker", slot=1, task=77, event="output"),
    ]
    for second in range(40):
        done = sum(90 + 7 * (step % 9) for step in range(second))
        scene.meter.add(NOW - 40 + second, {"fleet": (done, second)})
    return scene


def three_hosts(state: State | None = None) -> Scene:
    """The night shift, another host at work, and one that was cut off: half of its leases are over."""
    scene = night_shift(state)
    assert scene.snapshot is not None
    far = "worker-7f9c4d-x2x5z.eu-west.example.com"
    workers = [
        *scene.snapshot.status["workers"],
        worker(0, 611, host="beta", runner="r2", task=95, type="resize_photo", attempt=1)
        | {"run_seconds": 0.02, "done": 940, "failed": 2},
        worker(1, 612, "idle", host="beta", runner="r2", done=933),
        worker(0, 77, "running", host=far, runner="r3", task=96, type="sync_crm", attempt=1)
        | {"run_seconds": 41.0, "lease_seconds": 3.0, "silent_seconds": 27.0},
        worker(1, 78, "expired", host=far, runner="r3", lease_seconds=-1.5),
    ]
    scene.snapshot.status.update({"workers": workers, "hosts": by_host(workers)})
    return scene


def fleet(work: list[tuple[int, int, int, float]]) -> dict[str, Any]:
    """What the parent says: workers by slot, pid, task and seconds; and one that idles."""
    none = {"ready": True, "stopping": False, "deadline": NOW + 20, "rss": 32 << 20, "failed": 0}
    workers = [
        none
        | {"slot": slot, "pid": pid, "task": task, "started_at": NOW - seconds, "done": 5}
        | {"limit_at": NOW - seconds + 60 * (1 if task == 90 else 100)}
        | {"progress": [364, 900] if task == 77 else None}
        for slot, pid, task, seconds in work
    ]
    idle = {"slot": 3, "pid": 4180, "task": None, "started_at": None, "done": 0}
    workers.append(none | idle | {"limit_at": None, "progress": None})
    return {
        "at": NOW,
        "runner": "r1",
        "started_at": NOW - 11_000,
        "stopping": None,
        "away_since": None,
        "deaths": 2,
        "last_death": [NOW - 12, "worker 3 ended in task 812: SIGKILL (perhaps out of memory)"],
        "tally": {"ok": 5000, "retried": 12, "dead": 7},
        "workers": workers,
    }


def line(level: str, message: str, **more: Any) -> dict[str, Any]:
    """One record of the log."""
    return {"at": CLOCK - 12, "level": level, "message": message, "role": "supervisor"} | more


def hostile(text: str) -> Scene:
    """A scene with this text in every place that holds one."""
    workers = [worker(0, 4100, task=1, type=text, attempt=1, run_seconds=3.0, host=text)]
    kinds = [kind(text, ready=5, dead=1, unknown=5, paused_until=text)]
    scene = Scene(State(), HOST, True, text)
    gone = [dead(1, text, text, text, 1.0)]
    failing = [{"type": text, "count": 1, "cause": text, "error": text, "next_try_seconds": 1.0}]
    taken = status(workers, kinds, kinds)
    scene.snapshot = Snapshot(NOW, NOW, taken, gone, failing)
    scene.trouble = text
    scene.fleet = fleet([(0, 4100, 1, 3.0)]) | {"last_death": [NOW, text], "stopping": text}
    scene.log = [line(text, text, role=text, slot=text, task=text, event="output")]
    return scene
