"""The overview made from counts, pauses and workers."""

from typing import Any

from runner.operating.board import overview
from runner.operating.standing import standstills

IDLE = {"host": "a", "state": "idle", "lease_seconds": 29.0, "silent_seconds": 1.0}
IDLE |= {"rss": None, "done": 0, "failed": 0}


def count(queue: str, task_type: str, **numbers: Any) -> dict[str, Any]:
    zero = dict.fromkeys(("ready", "scheduled", "running", "dead", "retried", "lost_leases"), 0)
    return {"queue": queue, "type": task_type, **zero, "oldest_ready_seconds": None, **numbers}


def test_nothing_is_all_zeros() -> None:
    seen = overview("d", [], [], [], ())
    assert (seen["ready"], seen["oldest_ready_seconds"], seen["queues"]) == (0, None, [])


def test_sums_by_queue_and_type() -> None:
    counts = [
        count("a", "x", ready=2, oldest_ready_seconds=5.0, retried=1),
        count("a", "y", ready=1, oldest_ready_seconds=9.0),
        count("b", "x", dead=3, lost_leases=2),
    ]
    seen = overview("d", counts, [], [], ())
    assert (seen["ready"], seen["dead"], seen["oldest_ready_seconds"]) == (3, 3, 9.0)
    assert (seen["retried"], seen["lost_leases"]) == (1, 2)
    assert [(q["name"], q["ready"], q["oldest_ready_seconds"]) for q in seen["queues"]] == [
        ("a", 3, 9.0),
        ("b", 0, None),
    ]
    assert [(t["name"], t["ready"], t["dead"]) for t in seen["types"]] == [("x", 2, 3), ("y", 1, 0)]


def test_a_type_is_unknown_only_where_that_can_be_told() -> None:
    counts = [count("a", "x", ready=2), count("a", "y", ready=1)]
    assert overview("d", counts, [], [], None)["unknown"] == 0
    assert overview("d", counts, [], [], {"x"})["unknown"] == 1
    seen = overview("d", counts, [], [IDLE], {"x"})
    assert (seen["unknown"], seen["leases_active"]) == (1, 1)


def test_pauses_of_a_whole_queue_or_type() -> None:
    pauses = [
        {"queue": "a", "type": None, "paused_until": "infinity"},
        {"queue": None, "type": "x", "paused_until": "2999"},
        {"queue": "b", "type": "x", "paused_until": "3000"},
    ]
    seen = overview("d", [count("b", "x")], pauses, [], ())
    assert [(q["name"], q["paused_until"]) for q in seen["queues"]] == [
        ("a", "infinity"),
        ("b", None),
    ]
    assert [(t["name"], t["paused_until"]) for t in seen["types"]] == [("x", "2999")]


def test_many_types_are_no_work() -> None:
    counts = [count("a", f"type {number}", ready=1) for number in range(50_000)]
    seen = overview("d", counts, [], [], ())
    assert (seen["ready"], len(seen["types"])) == (50_000, 50_000)


def test_queues_that_nobody_serves_are_named() -> None:
    count = dict.fromkeys(("ready", "scheduled", "running", "dead", "retried", "lost_leases"), 0)
    counts = [
        count | {"queue": name, "type": "t", "ready": 1, "oldest_ready_seconds": 1.0}
        for name in ("mail", "reports")
    ]

    def unserved(workers: list[dict[str, Any]], served: set[str] | None) -> list[str]:
        seen = overview("d", counts, [], workers, {"t"}, served)
        return [queue["name"] for queue in seen["queues"] if queue["unserved"]]

    assert unserved([IDLE], {"mail"}) == ["reports"]
    assert unserved([IDLE], None) == []
    assert unserved([], set()) == []  # without any worker that goes without saying


def test_what_stands_still_is_told_with_what_to_type() -> None:
    counts = [
        count("a", "x", ready=1200),
        count("a", "y", ready=3),
        count("b", "x", ready=4),
        count("c d", "z", ready=5),
    ]
    pauses = [
        {"queue": "a", "type": None, "paused_until": "infinity"},
        {"queue": "b", "type": "x", "paused_until": "2999"},
        {"queue": None, "type": "w", "paused_until": "2999"},
        {"queue": "--all", "type": "-x", "paused_until": "2999"},
    ]
    seen = overview("d", counts, pauses, [IDLE], {"x", "y"}, {"b"})
    assert [pause["ready"] for pause in seen["pauses"]] == [1203, 4, 0, 0]
    assert [(one.text, one.command) for one in standstills(seen)] == [
        ("queue a is paused: 1,203 waiting", "runner resume a"),
        ("type x in queue b is paused: 4 waiting", "runner resume b --type x"),
        ("type w is paused: 0 waiting", "runner resume --type w"),
        ("type -x in queue --all is paused: 0 waiting", "runner resume --type -x -- --all"),
        ("queue c d is served by nobody: 5 waiting", "runner start --queue 'c d'"),
        ("type z has no handler: 5 waiting", "runner todo"),
    ]
    assert list(standstills(overview("d", [count("a", "x", ready=1)], [], [IDLE], {"x"}))) == []
