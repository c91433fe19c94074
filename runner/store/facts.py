"""What `explain` goes by, read at one moment."""

from typing import Any

from ..operating.circumstances import Facts, Holder, Pause, Staff
from ..operating.explain import MANY, Gone
from .sql import records
from .tasks import Connection, fate, utc

STAFF = ("workers", "serving", "knowing", "able", "idle", "fit", "leaving")


def facts(conn: Connection, task_id: int) -> Facts | Gone:
    """The task with all that bears on it, or what became of it."""
    found = records(conn, "explain_facts", {"id": task_id, "bound": MANY + 1})
    if found:
        return _facts(task_id, found[0])
    gone = fate(conn, task_id)
    return Gone(task_id, gone.issued(task_id), gone.how, gone.who, gone.at)


def _facts(task_id: int, row: dict[str, Any]) -> Facts:
    return Facts(
        task_id=task_id,
        state=row["state"],
        queue=row["queue"],
        type=row["type"],
        priority=row["priority"],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        released=row["released"],
        cause=row["cause"],
        error=row["last_error"],
        run_at=utc(row["run_at"]) or "",
        due_in_seconds=row["due_in_seconds"],
        run_seconds=row["run_seconds"] or 0.0,
        pause=_pause(row),
        holder=_holder(row),
        staff=Staff(**{name: row[name] for name in STAFF}),
        ahead=row["ahead"],
        beside=row["beside"],
    )


def _pause(row: dict[str, Any]) -> Pause | None:
    if not row["paused"]:
        return None
    return Pause(row["paused_queue"], row["paused_type"], utc(row["paused_until"]))


def _holder(row: dict[str, Any]) -> Holder | None:
    if row["host"] is None:
        return None
    names = ("host", "pid", "slot", "lease_seconds", "others", "silent_seconds")
    return Holder(**{name: row[name] for name in names})
