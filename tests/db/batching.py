"""Batches of tasks that are run here, without a process: what came of each, and what was told."""

import os
from collections.abc import Callable
from typing import Any

from runner.config import FleetConfig
from runner.handling.executor import Executor
from runner.handling.handoff import Handoff
from runner.handling.pace import Pace
from runner.handling.telling import Telling
from runner.logpipe import LogPipe
from runner.registry import Registry
from runner.store.tx import Tx
from runner.task import Task
from runner.wire import Event, EventReader, EventWriter, Kind, Outcome
from tests.db.attempting import Bench
from tests.db.stage import add, consistent, row

Handler = Callable[[Tx, Task], Any]
EFFECT = "insert into effect values (%s)"


def good(tx: Tx, task: Task) -> None:
    tx.execute(EFFECT, [task.id])


class Batches:
    """Runs batches in one session, a handler a task, in the order of the tasks."""

    def __init__(self, bench: Bench, sink: int) -> None:
        self.bench = bench
        self.stopping = False
        self.ids: list[int] = []
        self._handlers: dict[int, Handler] = {}
        self._events, events = os.pipe()
        os.set_blocking(self._events, False)
        self._fds = [self._events, events, *os.pipe()]
        registry = Registry()
        registry.add(lambda tx, task: self._handlers[task.id](tx, task), "t")
        self.executor = Executor(
            bench.session,
            registry,
            bench.attempts,
            Telling(FleetConfig("", None), EventWriter(events, 1), LogPipe(sink)),
            Handoff(*self._fds[2:]),
            Pace(),
            lambda: self.stopping,
        )

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)

    def run(self, *handlers: Handler) -> list[int]:
        """Their tasks' ids, after the batch; those that sent nothing are deleted, too."""
        self.claim(*handlers)
        self.work_through()
        assert consistent(self.bench.db)
        return self.ids

    def claim(self, *handlers: Handler) -> None:
        bench = self.bench
        self.ids = add(bench.db, "t", len(handlers))
        claimed = bench.claimer.look_around().claim(wanted=len(self.ids), full=True)
        self.rows = sorted(claimed, key=lambda row: row.task_id)
        assert [each.task_id for each in self.rows] == self.ids
        self._handlers = dict(zip(self.ids, handlers, strict=True))

    def work_through(self) -> None:
        self.executor.work_through(self.rows)
        self.executor.clear()

    def effects(self) -> list[int]:
        """Whose effects there are, by their places in the batch."""
        found = self.bench.db.execute("select n from effect order by n").fetchall()
        return [self.ids.index(each[0]) for each in found]

    def left(self) -> dict[int, tuple[str, int, str | None]]:
        """The tasks that are not done: the place in the batch, and what is said of each."""
        rows = {place: row(self.bench.db, task_id) for place, task_id in enumerate(self.ids)}
        return {
            place: (each.state, each.attempt, each.cause)
            for place, each in rows.items()
            if each is not None
        }

    def told(self) -> list[Event]:
        """The events since the last time."""
        try:
            return list(EventReader().feed(os.read(self._events, 1 << 16)))
        except BlockingIOError:
            return []

    def outcomes(self) -> dict[int, Outcome]:
        """How each came out, as it was told: each once, behind its ENDING or by DONE."""
        found: dict[int, Outcome] = {}
        ending = set()
        for event in self.told():
            place = self.ids.index(event.task) if event.task in self.ids else None
            if event.kind is Kind.ENDING:
                ending.add(place)
            if place is not None and event.kind in (Kind.FINISHED, Kind.DONE):
                assert place not in found
                assert event.kind is Kind.DONE or place in ending
                done = event.kind is Kind.DONE
                found[place] = Outcome.OK if done else Outcome(event.flag)
        return found
