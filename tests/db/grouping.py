"""Groups of tasks that are run here, without a worker's process, and what becomes of each."""

from collections.abc import Callable
from typing import Any

from runner.config import FleetConfig
from runner.handling.group import Group
from runner.handling.telling import Telling
from runner.logpipe import LogPipe
from runner.registry import Registry
from runner.store.claim import Row
from runner.store.tx import Tx
from runner.task import Task
from runner.wire import EventWriter
from tests.db.attempting import Bench
from tests.db.stage import add, consistent, row

Member = Callable[[Tx, Task], Any]
EFFECT = "insert into effect values (%s)"
SLEEP = "select pg_sleep(%s)"
LARGE = "insert into effect select %s where length(%s) > 0"
PREPARED = 7  # times that psycopg sees a statement until it is prepared, and some


def good(tx: Tx, task: Task) -> None:
    tx.execute(EFFECT, [task.id])


def silent(tx: Tx, task: Task) -> None:
    pass


def raises(tx: Tx, task: Task) -> None:
    good(tx, task)
    raise ValueError("one of the group")


class Groups:
    """Runs groups, one member function a task, in the order of the tasks."""

    def __init__(self, bench: Bench, sink: int) -> None:
        self.bench = bench
        self.members: dict[int, Member] = {}
        self.returned: Row | None = None  # what is to be run by itself
        registry = Registry()
        registry.add(lambda tx, task: self.members[task.id](tx, task), "t", group=True)
        telling = Telling(FleetConfig("", None), EventWriter(sink, 1), LogPipe(sink))
        session, attempts = bench.session, bench.attempts
        self.group = Group(session, registry["t"], attempts, telling, lambda: False)

    def run(self, *members: Member) -> list[int]:
        """Their tasks' ids, after the group."""
        bench = self.bench
        ids = add(bench.db, "t", len(members))
        claimed = bench.claimer.look_around().claim(wanted=len(ids), full=True)
        rows = sorted(claimed, key=lambda row: row.task_id)
        assert [each.task_id for each in rows] == ids
        self.members = dict(zip(ids, members, strict=True))
        rest = iter(rows[1:])
        self.returned = self.group.run(rows[0], lambda: next(rest, None))
        assert consistent(bench.db)
        return ids

    def effects(self) -> list[int]:
        """Whose effects there are."""
        found = self.bench.db.execute("select n from effect order by n").fetchall()
        return [each[0] for each in found]

    def left(self, ids: list[int]) -> dict[int, tuple[str, int, str | None]]:
        """The tasks that are not done: the place in the group, and what is said of each."""
        rows = {place: row(self.bench.db, task_id) for place, task_id in enumerate(ids)}
        return {
            place: (each.state, each.attempt, each.cause)
            for place, each in rows.items()
            if each is not None
        }
