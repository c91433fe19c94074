"""One worker's session that runs one attempt after the other, with what it told in between."""

import random
from collections.abc import Callable
from typing import Any, NoReturn

from runner.backoff import Backoff
from runner.handling.attempt import Attempts
from runner.handling.calling import Calling
from runner.handling.interrupts import Interrupts
from runner.handling.restore import ProcessState
from runner.handling.session import Session
from runner.judge import Claim, Judge, Verdict
from runner.registry import Registry
from runner.registry.hooks import Hooks
from runner.store.claim import Row
from runner.store.connect import connect
from runner.store.ending import delete_done
from runner.store.tx import Tx
from runner.task import Task
from runner.text import ERROR_LIMIT
from runner.wire import Outcome, Token
from tests.db.stage import INSERT, Claimer, add, consistent, effects, row
from tests.servers import Connection

BACKOFF = Backoff(jitter=0.0)


class NoState(ProcessState):
    """The state of this process is the tests' own: it is not touched."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def restore(self, began: float = 0.0) -> int:
        self.told.append("restored")
        return 0

    def restore_all(self) -> None:
        self.told.append("all restored")


class Bench:
    """A worker without a process: claims a task, runs a handler on it, and shows the row after."""

    def __init__(self, db: Connection, url: str) -> None:
        self.db = db
        self.conn = connect(url, "worker test", factory=Tx)
        self.claimer = Claimer(self.conn, "t")
        self.session = Session(self.conn, self.claimer.worker_id)
        self.interrupts = Interrupts()
        self.stopping = False
        self.told: list[str] = []
        self.claim: Claim
        self.task: Task
        calling = Calling(self.interrupts, NoState(self.told), [], Hooks(), lambda count: None)
        judge = Judge(BACKOFF, random.Random(1))
        self.attempts = Attempts(self.session, judge, calling, lambda: self.stopping)

    def claimed(self, **columns: Any) -> Row:
        """Add a task and claim it."""
        add(self.db, "t", **columns)
        found = self.claimer.take(full=True)
        assert found is not None
        self.claim = found.claim
        self.task = found.task(None)
        return found

    def run(
        self, handler: Callable[..., Any], columns: dict[str, Any] | None = None, **options: Any
    ) -> tuple[Outcome, Verdict | None]:
        """Claim a new task and run this handler, with these options of its registration."""
        self.claimed(**(columns or {}))
        return self.again(handler, **options)

    def again(self, handler: Callable[..., Any], **options: Any) -> tuple[Outcome, Verdict | None]:
        """Run on the task claimed last."""
        registry = Registry()
        registry.add(handler, "t", **options)
        try:
            ended = self.attempts.run(
                registry["t"], self.task, self.claim, lambda _: self.told.append("ending")
            )
            if ended.done:  # its row is deleted with others', later
                self.told.append("done")
                token = Token(self.claim.task_id, self.claim.fence)
                assert delete_done(self.conn, self.session.worker_id, [token]) == 1
            return ended.outcome, ended.verdict
        finally:
            if not self.conn.closed:
                self.conn.restore()

    def batch(self, *handlers: Callable[..., Any]) -> list[str]:
        """Claim a task for each of these and run them, each transaction begun with the COMMIT before;
        how they ended."""
        add(self.db, "t", len(handlers))
        claimed = self.claimer.look_around().claim(wanted=len(handlers), full=True)
        return [
            self._of_batch(*each)
            for each in zip(claimed, handlers, [*claimed[1:], None], strict=True)
        ]

    def _of_batch(self, row: Row, handler: Callable[..., Any], following: Row | None) -> str:
        registry = Registry()
        registry.add(handler, "t")
        ended = self.attempts.run(
            registry["t"],
            row.task(None),
            row.claim,
            lambda claim: None,
            lambda: following is not None,
        )
        if ended.done:
            delete_done(self.conn, self.session.worker_id, [Token(row.task_id, row.fence)])
        self.conn.restore()
        return "DONE" if ended.done else ended.outcome.name

    @property
    def row(self) -> Any:
        """The task claimed last, as it is in the table now; None when it is done."""
        return row(self.db, self.claim.task_id)


def good(tx: Tx, task: Task) -> None:
    tx.execute(INSERT)


def failed(bench: Bench, handler: Callable[..., Any], cause: str, **options: Any) -> str:
    """It is one failed attempt with this cause and no effect, and the next task is well; its error."""
    before = effects(bench.db)
    outcome, verdict = bench.run(handler, **options)
    assert outcome in (Outcome.RETRIED, Outcome.DEAD)
    assert verdict is not None
    row = bench.row
    assert (row.state, row.attempt, row.cause) == (verdict.state, 1, cause)
    assert row.last_failed_at is not None
    assert effects(bench.db) == before
    assert consistent(bench.db)
    assert bench.run(good) == (Outcome.OK, None)
    assert effects(bench.db) == before + 1
    assert len(row.last_error) <= ERROR_LIMIT
    return str(row.last_error)


def raises(error: Any, *, after: str = INSERT) -> Callable[[Tx, Task], NoReturn]:
    def handler(tx: Tx, task: Task) -> NoReturn:
        if after:
            tx.execute(after)
        raise error

    return handler
