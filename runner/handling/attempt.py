"""One attempt at one task: the handler under its limits, and the judgement over how it ended."""

from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from .. import faults
from ..errors import Discard, LeaseLost, Retry, Snooze, TimeLimit, TransactionMisuse
from ..judge import Claim, Judge, Verdict
from ..registry import Handler
from ..task import Task
from ..text import cause_name, error_text
from ..wire import Outcome
from .interrupts import Interrupts
from .session import AlreadyDone, Left, Session


class SwallowedError(RuntimeError):
    """The handler swallowed a database error: nothing of its transaction was saved."""

    def __init__(self) -> None:
        super().__init__("the handler swallowed a database error: nothing of it was saved")


@dataclass
class Attempts:
    """Runs attempts in one session; `ending` is called before the first statement that ends one."""

    session: Session
    judge: Judge
    interrupts: Interrupts
    restore: Callable[[], None]
    stopping: Callable[[], bool]
    secret: str | None = None  # the database's password: drivers put it into their messages

    def run(
        self, handler: Handler, task: Task, claim: Claim, ending: Callable[[], None]
    ) -> tuple[Outcome, Verdict | None]:
        """Run the handler and end the claim.

        Disconnected when that could not be written: then the next identity does it.
        """
        conn = self.session.conn
        marker = f"{claim.task_id}.{claim.fence}"
        conn.lend(marker)
        error = self._call(handler, task)
        conn.take_back(one_statement=task.key is None)
        self.restore()
        faults.point("after_handler")
        ending()
        if error is None and conn.failed:
            error = SwallowedError()
        if error is None and conn.ended_by_handler:
            error = TransactionMisuse("the handler ended the transaction that deletes its task")
        if error is None:
            error = self._complete(task, claim, handler, marker)
            if error is None:
                return Outcome.OK, None
        return self._end(error, handler, claim)

    def _call(self, handler: Handler, task: Task) -> BaseException | None:
        try:
            with self.interrupts.armed(task.limit_at):
                handler.run(self.session.conn, task)
        except BaseException as error:  # whatever a handler raises ends its attempt, not the worker
            return error
        return None

    def _complete(
        self, task: Task, claim: Claim, handler: Handler, marker: str
    ) -> BaseException | None:
        """None when the completion is committed; else what became of it instead."""
        conn = self.session.conn
        xid = None
        try:
            xid = self.session.complete(claim, task.key, task.type, marker)
            faults.point("before_commit")
            conn.end(b"COMMIT")
        except AlreadyDone:
            return self._drop(claim)
        except (psycopg.Error, LeaseLost) as error:
            if self.session.broken_by(error):
                judgement = self._interrupted("connection lost")
                self.session.give_up(error, Left(claim, judgement, xid))
            return error
        except Exception as error:
            return error
        faults.point("after_commit")
        return None

    def _drop(self, claim: Claim) -> BaseException | None:
        # Somebody completed this key before: the effect of this run is undone, and the row goes.
        self.session.conn.end(b"ROLLBACK")
        self.session.conn.begun = False
        try:
            self.session.complete(claim, None, "", "")
        except LeaseLost as error:
            return error
        return None

    def _end(
        self, error: BaseException, handler: Handler, claim: Claim
    ) -> tuple[Outcome, Verdict | None]:
        verdict = self._verdict(error, handler, claim)
        conn = self.session.conn
        try:
            conn.end(b"ROLLBACK")
        except psycopg.Error as trouble:
            self.session.give_up(trouble, Left(claim, lambda _: verdict))
        if isinstance(error, LeaseLost):
            return Outcome.LOST, None
        faults.point("before_verdict")
        outcome = self.session.write(claim, verdict)
        faults.point("after_verdict")
        return outcome, verdict

    def _verdict(self, error: BaseException, handler: Handler, claim: Claim) -> Verdict:
        interrupted = self.interrupts.raised
        if interrupted is not None and interrupted is not TimeLimit:
            return self._stopped(claim)
        if isinstance(error, TimeLimit):
            return self.judge.failed(claim, "time limit", error_text(error, secret=self.secret))
        if self.session.broken_by(error) and isinstance(error, psycopg.Error):
            return self.judge.interrupted(claim, "connection lost")
        if isinstance(error, Snooze):
            return self.judge.snoozed(claim, max(0.0, error.delay))
        if isinstance(error, Discard):
            return self.judge.failed(
                claim, "Discard", error_text(error, secret=self.secret), final=True
            )
        delay = error.delay if isinstance(error, Retry) else None
        final = isinstance(error, handler.discard_on) or bool(
            handler.retry_on and not isinstance(error, (Retry, *handler.retry_on))
        )
        return self.judge.failed(
            claim,
            cause_name(error),
            error_text(error, secret=self.secret),
            delay=delay,
            backoff=handler.backoff,
            final=final,
        )

    def _stopped(self, claim: Claim) -> Verdict:
        # The parent sends TERM for a stop, and shortly before a lease ends.
        if self.stopping():
            return self.judge.released(claim, started=True)
        return self.judge.interrupted(claim, "interrupted")

    def _interrupted(self, cause: str) -> Callable[[Claim], Verdict]:
        return lambda claim: self.judge.interrupted(claim, cause)
