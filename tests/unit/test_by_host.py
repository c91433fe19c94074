"""Workers grouped by host: what a host is doing, and when it is called lost."""

from typing import Any

import pytest

from runner.operating.hosts import COLUMNS, by_host, notices


def worker(host: str, state: str, left: float, silent: float, **more: Any) -> dict[str, Any]:
    counted = {"rss": None, "done": 0, "failed": 0}
    return {"host": host, "state": state, "lease_seconds": left, "silent_seconds": silent} | (
        counted | more
    )


def test_a_record_a_host() -> None:
    found = by_host(
        [
            worker("b", "idle", 29, 1, rss=10, done=2),
            worker("a", "running", 28, 2, done=1, failed=3),
            worker("b", "running", 27, 3, rss=5, done=4),
            worker("b", "expired", -1, 31),
        ]
    )
    assert [tuple(one) for one in found] == [COLUMNS] * 2
    assert [tuple(one.values()) for one in found] == [
        ("a", "running", 1, 1, 0, 0, 2, 0, 1, 3),
        ("b", "running", 3, 1, 1, 1, 1, 15, 6, 0),
    ]


@pytest.mark.parametrize(
    ("leases", "state"),
    [
        ([(25.0, 5.0)], "idle"),
        ([(15.1, 14.9)], "idle"),
        ([(14.9, 15.1)], "lost"),
        ([(-3.0, 33.0)], "lost"),
        ([(-3.0, 33.0), (28.0, 2.0)], "idle"),
    ],
)
def test_lost_when_nobody_was_renewed_for_half_a_lease(
    leases: list[tuple[float, float]], state: str
) -> None:
    (host,) = by_host(worker("a", "idle", left, silent) for left, silent in leases)
    assert host["state"] == state


def test_no_workers_no_hosts() -> None:
    assert by_host([]) == []


def test_a_sentence_for_a_host_whose_workers_are_not_renewed() -> None:
    assert (
        notices([worker("a", "running", 25, 5, pid=1), worker("a", "expired", -1, 31, pid=2)]) == []
    )
    silent = [worker("a\x1b", "running", 13, 17, pid=pid) for pid in (7, 3)]
    assert notices(silent) == [
        "a\\x1b: pid 3, 7: its lease was not renewed for 17.0s: its host or parent is perhaps gone"
    ]
