"""Looking at tasks: which of them a filter means, one whole, and what became of one that is gone."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import psycopg
from psycopg import sql

from .sql import column, query, records, value

Connection = psycopg.Connection[Any]
Record = dict[str, Any]

PAGE = 1000  # rows at a time, so that any number of tasks can be listed
TIMES = ("run_at", "created_at", "claimed_at", "lease_until")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which tasks are meant; None = whatever."""

    ids: Sequence[int] | None = None
    states: Sequence[str] | None = None
    queues: Sequence[str] | None = None
    types: Sequence[str] | None = None
    older_than: float | None = None  # seconds since it was added, or died
    error: str | None = None  # part of error or cause, in whatever case
    after: int = 0  # only greater ids


@dataclass(frozen=True, slots=True)
class Fate:
    """What is known of an id that may have no row."""

    here: bool
    how: str | None  # cancelled, discarded
    who: str | None
    at: str | None
    last_id: int | None  # the last one given out; None: not for us to see

    def issued(self, task_id: int) -> bool:
        """Whether this id was ever given to a task, as far as can be told."""
        return self.here or self.how is not None or self.last_id is None or task_id <= self.last_id


def tasks(
    conn: Connection, chosen: Filter, *, limit: int | None = None, whole: bool = False
) -> Iterator[Record]:
    """One record a task, by id, in the names of `list --json`; with `whole` in those of `show`."""
    more = query("whole_task") if whole else sql.SQL("")
    statement = query("tasks").format(chosen=query("chosen"), more=more)
    while limit is None or limit > 0:
        size = PAGE if limit is None else min(PAGE, limit)
        found = records(conn, statement, asdict(chosen) | {"limit": size})
        yield from map(_finished, found)
        if len(found) < size:
            return
        chosen = replace(chosen, after=found[-1]["id"])
        limit = None if limit is None else limit - size


def count(conn: Connection, chosen: Filter) -> int:
    """How many tasks a filter means."""
    statement = query("count_tasks").format(chosen=query("chosen"))
    return int(value(conn, statement, asdict(chosen)))


def ids(conn: Connection, chosen: Filter, limit: int) -> list[int]:
    """The first so many of them."""
    statement = query("chosen_ids").format(chosen=query("chosen"))
    return column(conn, statement, asdict(chosen) | {"limit": limit})


def fate(conn: Connection, task_id: int) -> Fate:
    """What became of an id."""
    found = records(conn, "fate", {"id": task_id})[0]
    return Fate(**found | {"at": utc(found["at"])})


def states(conn: Connection, task_ids: Sequence[int]) -> dict[int, str]:
    """The states of those that have a row."""
    return dict(conn.execute(query("states_of"), {"ids": list(task_ids)}).fetchall())


def utc(text: str | None) -> str | None:
    """ISO 8601 with its zone, of a time in UTC as PostgreSQL writes it; infinity stays that."""
    if text is None or text.endswith("infinity"):
        return text
    moment, before_christ, _ = text.partition(" BC")
    return f"{moment}+00:00{before_christ}"


def with_zones(record: Record, names: Sequence[str]) -> Record:
    """A record with these of its times finished."""
    return record | {name: utc(record[name]) for name in names if name in record}


def _finished(record: Record) -> Record:
    return with_zones(record, TIMES)
