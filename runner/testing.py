"""For the tests of users: a drain in this process, on the connection that the test has.

The rules are a worker's, by the same code: handlers of registered types only, small priorities first and
then at random, each attempt counted, the same guarded connection, the same judgement of failures. What
belongs to a process is not there: no lease to lose, no time limit that interrupts (`task.remaining()`
tells it), nothing put back between tasks; and a group's tasks run one by one.
"""

import os
import random
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import pq

from .backoff import Backoff
from .clock import now
from .config import FleetConfig
from .errors import Stopped, TimeLimit, TransactionMisuse, UsageError
from .handling.attempt import Attempts
from .handling.calling import Calling
from .handling.interrupts import Interrupts
from .handling.restore import ProcessState
from .handling.session import ENDED, Disconnected, Session
from .judge import Claim, Judge, Verdict
from .places import Places
from .registry import Registry
from .store import drains, ending
from .store.claim import Claiming, Row
from .store.guest import Guest, make_due_ready
from .store.kinds import list_kinds
from .store.workers import Identity, register_worker, renew
from .task import Task
from .wire import Outcome, Renewal, Token

LEASE_SECONDS = 600.0  # renewed before each task


@dataclass
class Drained:
    """What a drain did. `retried` counts failed attempts that are not the last, `unknown` waiting tasks
    without a handler, `left` ready ones with one, `lost` those whose row vanished under the handler."""

    ok: int = 0
    retried: int = 0
    dead: int = 0
    snoozed: int = 0
    lost: int = 0
    unknown: int = 0
    left: int = 0
    errors: list[tuple[Task, BaseException]] = field(default_factory=list)


def drain(
    conn: psycopg.Connection[Any],
    tasks: Registry,
    *,
    queues: Sequence[str] | None = None,
    retries: bool = False,
    max_tasks: int = 1000,
) -> Drained:
    """Run the ready tasks, and those that they enqueue, until none is left; what became of them.

    Each effect is committed together with the deletion of its task; where `conn` has a transaction open,
    they share a savepoint of that instead, so that a test can roll everything back. A task that failed
    waits for its backoff and is not run again, unless `retries`: then at once. At most `max_tasks`
    handlers are started.
    """
    if not isinstance(conn, psycopg.Connection):
        raise TypeError(f"drain() needs a psycopg.Connection, not {type(conn).__name__}")
    if conn.info.transaction_status == pq.TransactionStatus.INERROR:
        raise UsageError("a statement failed in this transaction: roll it back first")
    if conn.pgconn.pipeline_status != pq.PipelineStatus.OFF:
        raise UsageError("the connection is in a pipeline: leave it first")
    guest = Guest(conn)
    try:
        return _Rehearsal(guest, tasks, queues, retries).run(max_tasks)
    except Disconnected as lost:
        raise (lost.__cause__ or lost) from None
    finally:
        guest.leave()


@dataclass
class _Session(Session):
    """A worker's session that may be behind a savepoint."""

    retries: bool = False

    def complete_and_commit(self, claim: Claim, *, chain: bool = False) -> None:
        assert isinstance(self.conn, Guest)
        if not self.conn.nested:
            super().complete_and_commit(claim, chain=chain)
            return
        found = ending.complete(self.conn, self.worker_id, claim.task_id, claim.fence)
        if found != self.conn.marker:
            raise TransactionMisuse(ENDED)
        self.conn.end(b"COMMIT")

    def write(self, claim: Claim, verdict: Verdict) -> Outcome:
        if self.retries and verdict.outcome is Outcome.RETRIED:
            verdict = replace(verdict, state="ready", delay_seconds=0.0)
        return super().write(claim, verdict)


class _Untouched(ProcessState):
    """The state of this process is the tests' own."""

    def __init__(self) -> None:
        pass

    def restore(self, began: float = 0.0) -> int:
        return 0

    def restore_all(self) -> None:
        pass


class _Rehearsal:
    """A worker without a process."""

    def __init__(
        self, conn: Guest, tasks: Registry, queues: Sequence[str] | None, retries: bool
    ) -> None:
        self.conn = conn
        self.tasks = tasks
        self.queues = list(queues) if queues is not None else None
        self.session = _Session(conn, retries=retries)
        most = {handler.name: handler.max_attempts for handler in tasks}
        self.claiming = Claiming(conn, self.session.worker_id, most)
        self.judge = Judge(Backoff(), random.Random())
        calling = Calling(Interrupts(), _Untouched(), [], tasks.hooks, lambda count: None)
        self.attempts = Attempts(
            self.session,
            self.judge,
            calling,
            lambda: False,
            conn.info.password or None,
            self._on_error,
        )
        self.drained = Drained()

    def run(self, max_tasks: int) -> Drained:
        """Everything that is ready, as a worker with its hooks would."""
        make_due_ready(self.conn)
        self._register()
        try:
            for hook in self.tasks.hooks.on_worker_start:
                hook()
            started = 0
            while started < max_tasks and (row := self._claim()) is not None:
                started += 1
                self._run(row)
            for hook in self.tasks.hooks.on_worker_stop:
                hook()
        finally:
            self._leave()
        waiting = drains.left(self.conn, self.queues, self.tasks.types)
        self.drained.unknown, self.drained.left = waiting.unknown, waiting.ready
        return self.drained

    def _register(self) -> None:
        identity = Identity(
            self.session.worker_id,
            uuid4(),
            socket.gethostname(),
            os.getpid(),
            0,
            self.tasks.types,
            self.queues,
            LEASE_SECONDS,
        )
        register_worker(self.conn, identity)

    def _leave(self) -> None:
        """Remove the worker's row; a claim that is still open is given back."""
        if not self.conn.closed and not self.conn.failed:
            released = self.judge.released
            ending.settle(
                self.conn, self.session.worker_id, lambda claim: released(claim, started=True)
            )

    def _claim(self) -> Row | None:
        renew(self.conn, [Renewal(self.session.worker_id.bytes)])
        places = Places()
        places.know([kind for kind in list_kinds(self.conn) if self._is_ours(*kind)])
        rows = self.claiming.claim(self.claiming.compose(places, full=True), places)
        return rows[0] if rows else None

    def _is_ours(self, queue: str, task_type: str, priority: int) -> bool:
        return task_type in self.tasks and (self.queues is None or queue in self.queues)

    def _run(self, row: Row) -> None:
        handler = self.tasks[row.task_type]
        limit = handler.timeout if handler.timeout is not None else FleetConfig.timeout_seconds
        task = row.task(now() + limit if limit else None)
        try:
            ended = self.attempts.run(handler, task, row.claim, lambda claim: None)
        finally:
            if not self.conn.closed:
                self.conn.restore()
        if ended.done:
            token = Token(row.task_id, row.fence)
            ending.delete_done(self.conn, self.session.worker_id, [token])
        name = ended.outcome.name.lower()
        setattr(self.drained, name, getattr(self.drained, name) + 1)

    def _on_error(self, task: Task, error: BaseException) -> None:
        self.drained.errors.append((task, error))
        for hook in self.tasks.hooks.on_error:
            hook(task, error)
        if not isinstance(error, Exception | SystemExit | TimeLimit | Stopped):
            raise error  # meant for who runs the tests: Ctrl-C, pytest.fail(), pytest.skip()
