"""A test's connection on which a user's tasks are drained, in a transaction of its own or not."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import psycopg

from runner.registry import Registry
from runner.store.tx import Tx
from runner.task import Task
from runner.testing import Drained, drain
from tests.db.stage import add, effects, row
from tests.servers import Connection

EFFECT = "insert into effect values (%s)"


@dataclass
class Stage:
    """A test's connection, with or without a transaction of its own around the drain."""

    conn: Connection
    db: Connection
    inside: bool

    def add(self, task_type: str = "t", count: int = 1, **columns: Any) -> list[int]:
        return add(self.conn, task_type, count, **columns)

    def drain(self, handler: Any, options: dict[str, Any] | None = None, **more: Any) -> Drained:
        """Run `handler` as the type `t`, registered with these options."""
        tasks = Registry()
        tasks.add(handler, "t", **(options or {}))
        return drain(self.conn, tasks, **more)

    def row(self, task_id: int) -> Any:
        return row(self.conn, task_id)

    def effects(self) -> int:
        return effects(self.conn)


def write(tx: Tx, task: Task) -> None:
    tx.execute(EFFECT, [task.id])


def fail(tx: Tx, task: Task) -> NoReturn:
    tx.execute(EFFECT, [task.id])
    raise ValueError("no luck")


def counts(drained: Drained) -> dict[str, int]:
    """What is not zero."""
    return {name: n for name, n in vars(drained).items() if name != "errors" and n}


@contextmanager
def transaction(url: str) -> Iterator[Connection]:
    with psycopg.connect(url) as conn:
        yield conn
        conn.rollback()
