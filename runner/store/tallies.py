"""Counts of ended attempts in `runner.tally`: added by maintainers, read by whoever shows rates."""

import json
from collections.abc import Mapping
from typing import Any

import psycopg

from ..tally import Tally
from .sql import query, records, value

Record = dict[str, Any]
RECENT_MINUTES = 6  # whole ones, and the one that has begun


def add(conn: psycopg.Connection[Any], tallies: Mapping[str, Tally]) -> None:
    """Add these counts, by the names of their types, to those of this minute."""
    rows = [
        {
            "task_type": name,
            "done": one.done,
            "failed": one.failed,
            "dead": one.dead,
            "released": one.released,
            "lost": one.lost,
            "seconds": one.seconds,
            "durations": one.durations,
        }
        for name, one in tallies.items()
    ]
    conn.execute(query("add_tallies"), {"tallies": json.dumps(rows)})


def fold(conn: psycopg.Connection[Any]) -> None:
    """Forget the single minutes of more than an hour ago; their sum is kept."""
    conn.execute(query("fold_tallies"))


def recent(conn: psycopg.Connection[Any], minutes: int = RECENT_MINUTES) -> list[Record]:
    """One record a type and minute, of the last `minutes`, with `began_seconds_ago`."""
    return records(conn, "recent_tallies", {"minutes": minutes})


def totals(conn: psycopg.Connection[Any]) -> list[Record]:
    """One record a type, of all time."""
    return records(conn, "total_tallies")


def counted_seconds(conn: psycopg.Connection[Any]) -> float | None:
    """For how long somebody has been counting; None where no fleet runs."""
    found: float | None = value(conn, "counted_seconds")
    return found
