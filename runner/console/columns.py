"""Which columns each table has, and how each value looks. Pure."""

from typing import Any

from . import cells
from .tables import Column

Record = dict[str, Any]

BAR = 12
NEAR = 0.8  # share of its time limit from which a task is called near it
_STATES = {
    "running": "green",
    "idle": "dim",
    "starting": "cyan",
    "stopping": "yellow",
    "expired": "bold red",
    "ended": "red",
    "lost": "bold white on red",
}


def is_near_limit(record: Record) -> bool:
    """Whether a task has used up most of its time."""
    run, limit = record.get("run_seconds"), record.get("limit_seconds")
    return run is not None and limit is not None and run > NEAR * limit


def _state_style(record: Record) -> str:
    return _STATES.get(record["state"], "")


def _run_style(record: Record) -> str:
    return "bold yellow" if is_near_limit(record) else ""


def _lease_style(record: Record) -> str:
    left = record["lease_seconds"]
    return "bold red" if left is not None and left < 0 else "dim"


def _failed_style(record: Record) -> str:
    return "red" if record["failed"] else "dim"


def _dead_style(record: Record) -> str:
    return "bold red" if record["dead"] else "dim"


def _expired_style(record: Record) -> str:
    return "bold red" if record["expired"] else "dim"


def _scheduled_style(record: Record) -> str:
    return "" if record["scheduled"] else "dim"


def _name_style(record: Record) -> str:
    return "bold yellow" if standing(record) else "cyan"


def said(error: object, record: Record) -> str:
    """The error without the name that the column before it says."""
    return cells.text(error).removeprefix(f"{cells.text(record['cause'])}: ")


def standing(record: Record) -> str:
    """What keeps a queue or type from being worked on."""
    if record.get("paused_until"):
        end = cells.text(record["paused_until"])
        return "paused" if end == "infinity" else f"paused to {end[11:16]}"
    if record.get("unserved"):
        return "nobody serves it"
    return "no handler" if record.get("unknown") and "unserved" not in record else ""


HOSTS = (
    Column("HOST", lambda one: cells.text(one["host"]), 0, least=8, most=40),
    Column("STATE", lambda one: cells.text(one["state"]), 1, style=_state_style),
    Column("WORKERS", lambda one: cells.count(one["workers"]), 2, right=True),
    Column("RUN", lambda one: cells.count(one["running"]), 3, right=True),
    Column("IDLE", lambda one: cells.count(one["idle"]), 6, right=True),
    Column("EXPIRED", lambda one: cells.count(one["expired"]), 5, right=True, style=_expired_style),
    Column("SILENT", lambda one: cells.seconds(one["silent_seconds"]), 4, right=True),
    Column("RSS", lambda one: cells.size(one["rss"]), 9, right=True, style=lambda _: "dim"),
    Column("DONE", lambda one: cells.count(one["done"]), 7, right=True),
    Column("FAIL", lambda one: cells.count(one["failed"]), 8, right=True, style=_failed_style),
)

WORKERS = (
    Column("HOST", lambda one: cells.text(one["host"]), 2, least=8, most=24),
    Column("SLOT", lambda one: cells.text(one["slot"]), 0, right=True),
    Column("PID", lambda one: cells.text(one["pid"]), 9, right=True, style=lambda _: "dim"),
    Column("STATE", lambda one: cells.text(one["state"]), 1, style=_state_style),
    Column("TASK", lambda one: cells.text(one["task"]), 4, right=True),
    Column("TYPE", lambda one: cells.text(one["type"]), 2, least=12, style=lambda _: "cyan"),
    Column("ATT", lambda one: cells.text(one["attempt"]), 8, right=True),
    Column("RUN", lambda one: cells.seconds(one["run_seconds"]), 3, right=True, style=_run_style),
    Column(
        "LIMIT",
        lambda one: cells.seconds(one["limit_seconds"]),
        12,
        right=True,
        quiet=True,
        style=lambda _: "dim",
    ),
    Column("PROGRESS", lambda one: cells.bar(one["progress"], BAR), 5, quiet=True),
    Column(
        "LEASE", lambda one: cells.seconds(one["lease_seconds"]), 10, right=True, style=_lease_style
    ),
    Column("RSS", lambda one: cells.size(one["rss"]), 9, right=True, style=lambda _: "dim"),
    Column("DONE", lambda one: cells.count(one["done"]), 7, right=True),
    Column("FAIL", lambda one: cells.count(one["failed"]), 6, right=True, style=_failed_style),
)


def kinds(title: str) -> tuple[Column, ...]:
    """The columns of queues, or of types."""
    return (
        Column(title, lambda one: cells.text(one["name"]), 0, least=14, style=_name_style),
        Column("READY", lambda one: cells.count(one["ready"]), 1, right=True),
        Column("RUN", lambda one: cells.count(one["running"]), 2, right=True),
        Column(
            "SCHED",
            lambda one: cells.count(one["scheduled"]),
            4,
            right=True,
            style=_scheduled_style,
        ),
        Column("DEAD", lambda one: cells.count(one["dead"]), 3, right=True, style=_dead_style),
        Column("OLDEST", lambda one: cells.seconds(one["oldest_ready_seconds"]), 6, right=True),
        Column(
            "RATE", lambda one: cells.rate(one.get("done_per_second")), 7, right=True, quiet=True
        ),
        Column("p50", lambda one: cells.seconds(one.get("p50_seconds")), 9, right=True, quiet=True),
        Column("p95", lambda one: cells.seconds(one.get("p95_seconds")), 8, right=True, quiet=True),
        Column("", standing, 10, quiet=True, style=lambda _: "bold yellow"),
    )


QUEUES, TYPES = kinds("QUEUE"), kinds("TYPE")

DEAD = (
    Column("TASK", lambda one: cells.text(one["id"]), 0, right=True),
    Column(
        "TYPE", lambda one: cells.text(one["type"]), 1, least=6, most=30, style=lambda _: "cyan"
    ),
    Column("ATT", lambda one: cells.text(one["attempt"]), 6, right=True),
    Column("AGO", lambda one: cells.seconds(one["dead_seconds"]), 3, right=True),
    Column(
        "CAUSE", lambda one: cells.text(one["cause"]), 2, least=6, most=32, style=lambda _: "red"
    ),
    Column("ERROR", lambda one: said(one["last_error"], one), 4, least=12, most=300),
)

FAILING = (
    Column(
        "TYPE", lambda one: cells.text(one["type"]), 0, least=6, most=30, style=lambda _: "cyan"
    ),
    Column("TASKS", lambda one: cells.count(one["count"]), 1, right=True),
    Column("NEXT TRY", lambda one: cells.until(one["next_try_seconds"]), 3, right=True),
    Column(
        "CAUSE", lambda one: cells.text(one["cause"]), 2, least=6, most=32, style=lambda _: "red"
    ),
    Column("ERROR", lambda one: said(one["error"], one), 4, least=12, most=300),
)
