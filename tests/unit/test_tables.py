"""Tables of verbs on a terminal: what is shown at which width."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.cells import cell_len

from runner.cli import tables

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
UUID = "b6f5c1f2-0a51-4c8e-9a53-6a2c0d6a2f10"


def at(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat()


TASK: dict[str, Any] = {
    "id": 2**63 - 1,
    "type": "import_customers_from_the_old_system",
    "queue": "a queue with quite a long name",
    "state": "scheduled",
    "priority": 5,
    "attempt": 3,
    "max_attempts": 25,
    "run_at": at(20.4),
    "created_at": at(-190),
    "key": "k" * 200,
    "worker": UUID,
    "last_error": "psycopg.errors.UniqueViolation: " + "x" * 900,
    "cause": "psycopg.errors.UniqueViolation",
}
WORKER: dict[str, Any] = {
    "host": "a-host.with.a.long.name.example.org",
    "pid": 4_194_303,
    "slot": 63,
    "runner": UUID,
    "state": "starting",
    "task": 123_456_789,
    "type": "import_customers_from_the_old_system",
    "attempt": 1,
    "run_seconds": 12.5,
    "lease_seconds": -29.1,
    "rss": 50_000_000,
    "done": 123_456,
    "failed": 3,
    "silent_seconds": 0.2,
}


def shown(table: tables.Table, record: dict[str, Any], width: int) -> list[str]:
    lines = table.lines([record], width)
    assert lines is not None
    assert max(cell_len(one.plain) for one in lines) <= width
    return [one.plain for one in lines]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_what_matters_is_shown_at_every_width(width: int) -> None:
    head, row = shown(tables.tasks(NOW), TASK, width)
    assert head.split()[:3] == ["id", "type", "state"]
    assert "cause" in head
    for text in (str(TASK["id"]), "import_cust", "scheduled", "psycopg.error"):
        assert text in row
    head, row = shown(tables.workers(), WORKER, width)
    for text in (str(WORKER["pid"]), "starting", "123456789", "import_cust"):
        assert text in row
    for text in (UUID, "2026-05"):
        assert text not in row


def test_more_is_shown_where_there_is_room() -> None:
    names = [shown(tables.tasks(NOW), TASK, width)[0].split() for width in (60, 100, 200)]
    assert len(names[0]) < len(names[1]) < len(names[2])
    assert {"queue", "created", "worker", "key", "priority"} <= set(names[2])
    row = shown(tables.tasks(NOW), TASK, 200)[1]
    assert "in 20s" in row
    assert "3m ago" in row


def test_where_no_table_fits_each_field_has_a_line() -> None:
    table = tables.tasks(NOW)
    assert table.lines([TASK], 40) is None
    lines = [line.split(maxsplit=1) for line in table.stacked(TASK)]
    assert ["state", "scheduled"] in lines
    assert ["id", str(TASK["id"])] in lines


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        (at(0), "0s ago"),
        (at(-119), "119s ago"),
        (at(-120), "2m ago"),
        (at(-3 * 3600), "3h ago"),
        (at(5 * 86_400), "in 5d"),
        ("2999-01-01T00:00:00.000+00:00", "2999-01-01"),
        ("infinity", "infinity"),
        ("12000-01-01T00:00:00+00:00", "12000-01-01T00:00:00+00:00"),
        ("2026-05-04T12:00:00", "2026-05-04T12:00:00"),
        (None, ""),
    ],
)
def test_ages(moment: str | None, told: str) -> None:
    assert tables.age(moment, NOW) == told


TYPE: dict[str, Any] = {
    "name": "import_feed",
    "ready": 1250,
    "scheduled": 40,
    "running": 3,
    "dead": 7,
    "unknown": 0,
    "oldest_ready_seconds": 74.0,
    "paused_until": None,
    "done_per_second": 12.34,
    "failed_per_second": 0.5,
    "p50_seconds": 0.028,
    "p95_seconds": 3.1,
}


def test_how_fast_types_are_is_told() -> None:
    head, row = shown(tables.counts("type", NOW, tables.DURATIONS), TYPE, 100)
    assert head.split()[-4:] == ["done/s", "failed/s", "p50", "p95"]
    assert row.split()[-4:] == ["12.3", "0.5", "28ms", "3.1s"]
    head, row = shown(tables.counts("type", NOW, tables.DURATIONS), TYPE, 80)
    assert "p95" in head.split()
    head, _ = shown(tables.counts("database", NOW, tables.RATES), TYPE, 100)
    assert head.split()[-2:] == ["done/s", "failed/s"]


def test_a_pause_without_an_end() -> None:
    paused = TYPE | {"paused_until": "infinity"}
    head, row = shown(tables.counts("queue", NOW), paused, 100)
    assert head.endswith("paused until")
    assert row.rstrip().endswith("resumed")
