"""What people do to tasks: requeue, discard, cancel, pause, resume."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import class_row

from .sql import column, query, records
from .tasks import Connection, Filter, Record, ids, states, with_zones

CHUNK = 1000
MANY = 1000  # more than any host has workers
EVERY_STATE = ("scheduled", "ready", "running", "dead")
LOCKED_TRIES, LOCKED_SECONDS = 20, 0.05  # for tasks that were named, and are locked just now
COLLISION_TRIES = 5  # two people may change the same tasks, each in another order

Change = Callable[[Connection, Sequence[int], Sequence[str]], list[int]]


class Alive(NamedTuple):
    """How much lives."""

    workers: int
    runners: int


def requeue(conn: Connection, task_ids: Sequence[int], from_states: Sequence[str]) -> list[int]:
    """Make these ready at once with all their attempts; the ids of those that were in such a state."""
    done = _change(conn, "requeue", {"ids": list(task_ids), "states": list(from_states)})
    _wake(conn, len(done))
    return done


def remover(how: str, who: str) -> Change:
    """The change that deletes tasks, with a line in runner.removed; `how`: cancelled, discarded."""

    def remove(conn: Connection, task_ids: Sequence[int], from_states: Sequence[str]) -> list[int]:
        values = {"ids": list(task_ids), "states": list(from_states), "how": how, "who": who}
        return _change(conn, "remove", values)

    return remove


def change_all(conn: Connection, chosen: Filter, change: Change) -> Iterator[int]:
    """Change whatever a filter means, a chunk at a time; how many at each. What is locked is left."""
    after = chosen.after
    assert chosen.states is not None
    while found := ids(conn, replace(chosen, after=after), CHUNK):
        yield len(change(conn, found, chosen.states))
        after = found[-1]


def change_named(
    conn: Connection, task_ids: Sequence[int], from_states: Sequence[str], change: Change
) -> tuple[list[int], dict[int, str | None]]:
    """Change these; the ids changed, and the state of each other one (None: it has no row)."""
    done: set[int] = set()
    for attempt in range(LOCKED_TRIES):
        left = [one for one in task_ids if one not in done]
        done.update(change(conn, left, from_states))
        found = states(conn, [one for one in left if one not in done])
        # One that is in the right state and was passed over is locked: by its completion, mostly.
        if not any(state in from_states for state in found.values()):
            break
        time.sleep(LOCKED_SECONDS if attempt < LOCKED_TRIES - 1 else 0)
    others = {one: found.get(one) for one in task_ids if one not in done}
    return [one for one in task_ids if one in done], others


def pause(
    conn: Connection,
    queue: str | None,
    task_type: str | None,
    *,
    until: datetime | None = None,
    delay: float | None = None,
    who: str,
) -> Record | None:
    """Keep a queue, a type, or a type in a queue from being claimed; neither time: until resumed.
    None where that time is over."""
    values = {"queue": queue, "type": task_type, "until": until, "delay": delay, "who": who}
    made = records(conn, "pause", values)
    return with_zones(made[0], ("paused_until",)) if made else None


def resume(conn: Connection, queue: str | None, task_type: str | None) -> list[Record]:
    """End that pause, and wake the idle; what was paused."""
    return _resume(conn, "resume", {"queue": queue, "type": task_type})


def resume_all(conn: Connection) -> list[Record]:
    """End every pause, and wake the idle; what was paused."""
    return _resume(conn, "resume_all", {})


def alive(conn: Connection, host: str | None = None) -> Alive:
    """How many workers and parents live, on this host or on all."""
    with conn.cursor(row_factory=class_row(Alive)) as cursor:
        found = cursor.execute(query("alive"), {"host": host}).fetchone()
    assert found is not None
    return found


def _resume(conn: Connection, name: str, values: Record) -> list[Record]:
    ended = records(conn, name, values)
    _wake(conn, MANY if ended else 0)
    return ended


def _wake(conn: Connection, count: int) -> None:
    if count:
        conn.execute(query("wake_some"), {"count": count})


def _change(conn: Connection, name: str, values: dict[str, Any]) -> list[int]:
    for attempt in range(COLLISION_TRIES):
        try:
            return column(conn, name, values)
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
            if attempt == COLLISION_TRIES - 1:
                raise
    raise AssertionError
