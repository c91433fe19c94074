"""Tasks, workers and counts as tables for a person's terminal: what matters least is left out first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..console import cells
from ..console.columns import said
from ..console.tables import Column, fit, head, line
from ..text import safe
from ..units import DAY_SECONDS, since
from . import output

Record = dict[str, Any]
FAR_DAYS = 1000  # from here on a date says more than a number of days


@dataclass(frozen=True)
class Table:
    """Columns, of which those of a rank below `kept` are always shown."""

    columns: Sequence[Column]
    kept: int

    def lines(self, records: Sequence[Record], width: int) -> list[Any] | None:
        """Head and rows in so many cells; None where those that are kept do not fit."""
        shown = fit(self.columns, records, width)
        if not {column for column in self.columns if column.rank < self.kept} <= shown.keys():
            return None
        if sum(shown.values()) + 2 * (len(shown) - 1) > width:
            return None
        return [head(shown, "bold"), *(line(shown, record) for record in records)]

    def stacked(self, record: Record) -> list[str]:
        """One record, a line a field, where no table fits."""
        room = max(len(column.name) for column in self.columns)
        return [f"  {one.name:<{room}}  {one.show(record)}" for one in self.columns]


def write(table: Table, records: Sequence[Record], title: str | None = None) -> None:
    """Print it on stdout, which is a terminal."""
    lines = table.lines(records, output.width())
    if title:
        output.write(safe(title) + "\n")
    if lines is None:
        for record in records:
            output.write("\n".join(table.stacked(record)) + "\n\n")
    else:
        output.write_lines(lines)
        output.write("\n")


def age(moment: object, now: datetime) -> str:
    """`3m ago`, `in 20s`; a date where that is far off, and what Python cannot read as it is."""
    text = cells.text(moment)
    try:
        away = (now - datetime.fromisoformat(text)).total_seconds()
    except (ValueError, TypeError):
        return text
    return text[:10] if abs(away) > FAR_DAYS * DAY_SECONDS else since(away)


def tasks(now: datetime) -> Table:
    """Of records of `list --json`."""
    return Table(
        (
            Column("id", lambda one: cells.text(one["id"]), 0, right=True),
            Column("type", lambda one: cells.text(one["type"]), 1, least=12, most=40),
            Column("state", lambda one: cells.text(one["state"]), 2),
            Column("attempt", _attempt, 5, right=True),
            Column("run at", lambda one: age(one["run_at"], now), 4),
            Column("cause", lambda one: cells.text(one["cause"]), 3, least=14, most=32),
            Column(
                "error", lambda one: said(one["last_error"], one), 6, least=16, most=300, quiet=True
            ),
            Column("queue", lambda one: cells.text(one["queue"]), 7, least=7, most=24),
            Column("created", lambda one: age(one["created_at"], now), 8),
            Column("worker", _worker, 9, most=40, quiet=True),
            Column("key", lambda one: cells.text(one["key"]), 10, least=8, most=40, quiet=True),
            Column("priority", lambda one: cells.text(one["priority"]), 11, right=True),
        ),
        kept=4,
    )


def workers() -> Table:
    """Of records of `workers --json`."""
    return Table(
        (
            Column("host", lambda one: cells.text(one["host"]), 7, least=8, most=40),
            Column("pid", lambda one: cells.text(one["pid"]), 3, right=True),
            Column("slot", lambda one: cells.text(one["slot"]), 5, right=True, quiet=True),
            Column("state", lambda one: cells.text(one["state"]), 0),
            Column("task", lambda one: cells.text(one["task"]), 1, right=True),
            Column("type", lambda one: cells.text(one["type"]), 2, least=12, most=40),
            Column("attempt", lambda one: cells.text(one["attempt"]), 6, right=True),
            _seconds("run", "run_seconds", 4),
            _seconds("lease", "lease_seconds", 8),
            Column("rss", lambda one: cells.size(one["rss"]), 9, right=True),
            _count("done", "done", 10),
            _count("failed", "failed", 11),
            _seconds("silent", "silent_seconds", 12),
        ),
        kept=3,
    )


def counts(name: str, now: datetime, more: Sequence[Column] = ()) -> Table:
    """Of the whole database, of queues or of types in `status --json`; `more`: RATES, DURATIONS."""
    return Table(
        (
            Column(name, lambda one: cells.text(one["name"]), 0, least=14, most=40),
            _count("ready", "ready", 1),
            _count("scheduled", "scheduled", 6),
            _count("running", "running", 2),
            _count("dead", "dead", 3),
            _count("unknown", "unknown", 9),
            _seconds("oldest ready", "oldest_ready_seconds", 5),
            Column("paused until", lambda one: _until(one.get("paused_until"), now), 4, quiet=True),
            *more,
        ),
        kept=4,
    )


def hosts() -> Table:
    """Of hosts in `status --json`."""
    return Table(
        (
            Column("host", lambda one: cells.text(one["host"]), 0, least=12, most=60),
            Column("state", lambda one: cells.text(one["state"]), 1),
            _count("workers", "workers", 2),
            _count("running", "running", 3),
            _count("idle", "idle", 5),
            _count("expired", "expired", 4),
            _seconds("silent", "silent_seconds", 6),
            Column("rss", lambda one: cells.size(one["rss"]), 7, right=True),
            _count("done", "done", 8),
            _count("failed", "failed", 9),
        ),
        kept=2,
    )


def now() -> datetime:
    """What ages are told by: this machine's clock."""
    return datetime.now(UTC)


def _until(moment: object, now: datetime) -> str:
    return "resumed" if moment == "infinity" else age(moment, now)


def _count(name: str, key: str, rank: int) -> Column:
    return Column(name, lambda one: cells.count(one[key]), rank, right=True)


def _seconds(name: str, key: str, rank: int) -> Column:
    return Column(name, lambda one: cells.seconds(one[key]), rank, right=True)


def _rate(name: str, key: str, rank: int) -> Column:
    return Column(name, lambda one: cells.rate(one[key]), rank, right=True)


RATES = (_rate("done/s", "done_per_second", 7), _rate("failed/s", "failed_per_second", 10))
DURATIONS = (
    *RATES,
    Column("p50", lambda one: cells.seconds(one["p50_seconds"]), 11, right=True, quiet=True),
    Column("p95", lambda one: cells.seconds(one["p95_seconds"]), 8, right=True, quiet=True),
)


def _attempt(record: Record) -> str:
    most = record["max_attempts"]
    return f"{record['attempt']}" + ("" if most is None else f"/{most}")


def _worker(record: Record) -> str:
    """Host and pid; the UUID that stands there once the worker is gone tells nobody anything."""
    name = cells.text(record["worker"])
    return name if ":" in name or not name else "gone"
