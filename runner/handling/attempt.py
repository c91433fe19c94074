"""One attempt at one task: the handler under its limits, and the judgement over how it ended."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import psycopg

from .. import faults, postmortem
from ..errors import Discard, LeaseLost, Retry, Snooze, TimeLimit, TransactionMisuse
from ..fields import check_delay
from ..judge import Claim, Judge, Verdict
from ..registry import Handler
from ..task import Task
from ..text import cause_name, error_text
from ..wire import Outcome
from .calling import Calling
from .session import ENDED, AlreadyDone, Left, Session


class SwallowedError(RuntimeError):
    """The handler swallowed a database error: nothing of its transaction was saved."""

    def __init__(self) -> None:
        super().__init__("the handler swallowed a database error: nothing of it was saved")


class Ended(NamedTuple):
    """How an attempt ended. `done`: it succeeded without having touched the connection, so that its
    row is still to be deleted, together with others."""

    outcome: Outcome
    verdict: Verdict | None = None
    done: bool = False


COMPLETED = Ended(Outcome.OK)
DONE = Ended(Outcome.OK, done=True)


@dataclass
class Attempts:
    """Runs attempts in one session."""

    session: Session
    judge: Judge
    calling: Calling
    stopping: Callable[[], bool]
    secret: str | None = None  # the database's password: drivers put it into their messages
    on_error: Callable[[Task, BaseException], None] = field(default=lambda task, error: None)

    def run(
        self,
        handler: Handler,
        task: Task,
        claim: Claim,
        ending: Callable[[Claim], None],
        follows: Callable[[], bool] = lambda: False,
    ) -> Ended:
        """Run the handler and end the claim; `ending` is called before the first statement that does.

        `follows` is asked at the COMMIT whether another claim is run next, whose transaction is begun on
        the same way.
        Disconnected when that could not be written: then the next identity does it.
        """
        conn = self.session.conn
        conn.lend()
        error = self.calling.call(handler, conn, task)
        if conn.unanswered:
            ending(claim)  # what is waited for from now on is not the handler's affair
        conn.take_back(one_statement=task.key is None)
        faults.point("after_handler")
        if error is None and not conn.begun and task.key is None:
            return DONE
        ending(claim)
        error = error or self.misuse()
        lost = False
        if error is None:
            error = self._complete(task, claim, follows)
            if error is None:
                return COMPLETED
            lost = isinstance(error, LeaseLost)  # ours, not one that a handler may raise
        return self._end(error, handler, task, claim, lost)

    def misuse(self) -> BaseException | None:
        """What a handler that returned has done to the transaction, if anything."""
        conn = self.session.conn
        if conn.stands:
            return None
        return SwallowedError() if conn.failed else TransactionMisuse(ENDED)

    def _complete(
        self, task: Task, claim: Claim, follows: Callable[[], bool]
    ) -> BaseException | None:
        """None when the completion is committed, or sent; else what became of it instead."""
        conn = self.session.conn
        try:
            faults.point("before_commit")
            if task.key is None:
                self.session.complete_and_commit(claim, chain=follows())
            else:
                self.session.complete_keyed(claim, task.key, task.type)
        except AlreadyDone:
            return self._drop(claim)
        except (psycopg.Error, LeaseLost) as error:
            if self.session.broken_by(error):
                left = Left(claim, self._interrupted, committing=True)
                self.session.give_up(error, [left])
            return error
        except Exception as error:
            return error
        if conn.unanswered:
            self.session.uncertain = Left(claim, self._interrupted, committing=True)
        else:
            faults.point("after_commit")
        return None

    def _drop(self, claim: Claim) -> BaseException | None:
        # Somebody completed this key before: the effect of this run is undone, and the row goes.
        conn = self.session.conn
        conn.end(b"ROLLBACK")
        try:
            self.session.drop(claim)
        except LeaseLost as error:
            return error
        except psycopg.Error as error:
            self.session.give_up(error, [Left(claim, self._interrupted)])
        return None

    def _end(
        self, error: BaseException, handler: Handler, task: Task, claim: Claim, lost: bool
    ) -> Ended:
        verdict = self.verdict(error, handler, claim)
        try:
            self.session.conn.end(b"ROLLBACK")
        except psycopg.Error as trouble:
            self.session.give_up(trouble, [Left(claim, lambda _: verdict)])
        if lost:
            return Ended(Outcome.LOST)
        faults.point("before_verdict")
        outcome = self.session.write(claim, verdict)
        faults.point("after_verdict")
        if verdict.failed:
            self.on_error(task, error)
        return Ended(outcome, verdict)

    def end_late(self, error: BaseException, handler: Handler, task: Task, claim: Claim) -> Ended:
        """End an attempt whose completion has turned out to have failed, when another has run since."""
        self.calling.interrupts.raised = None  # that was the other's
        if isinstance(error, psycopg.errors.QueryCanceled):
            # Most likely by what interrupted the other.
            verdict = self.judge.interrupted(claim, "interrupted")
            return Ended(self.session.write(claim, verdict), verdict)
        return self._end(error, handler, task, claim, isinstance(error, LeaseLost))

    def verdict(self, error: BaseException, handler: Handler, claim: Claim) -> Verdict:
        """What becomes of a claim whose handler ended with this error."""
        try:
            verdict = self._verdict(error, handler, claim)
        except Exception as odd:  # an exception of the app's own that does not answer as it should
            return self.judge.failed(claim, cause_name(error), self._text(odd))
        if not verdict.failed or verdict.error is None:
            return verdict
        return replace(verdict, post_mortem=postmortem.raised(error))

    def _verdict(self, error: BaseException, handler: Handler, claim: Claim) -> Verdict:
        interrupted = self.calling.interrupts.raised
        if interrupted is not None and interrupted is not TimeLimit:
            return self._stopped(claim)
        if isinstance(error, TimeLimit):
            if self.session.conn.cut_short:  # in the COMMIT of the one before it
                return self.judge.interrupted(claim, "interrupted")
            return self.judge.failed(claim, "time limit", self._text(error))
        if self.session.broken_by(error) and isinstance(error, psycopg.Error):
            return self._interrupted(claim)
        if isinstance(error, psycopg.errors.DiskFull):
            # Of whichever server: it is not the task that is in the way, unless it is that every time.
            return self.judge.interrupted(claim, "disk full")
        if isinstance(error, Snooze):
            return self.judge.snoozed(claim, _seconds(error.delay))
        if isinstance(error, Discard):
            return self.judge.failed(claim, "Discard", self._text(error), final=True)
        delay = None
        if isinstance(error, Retry) and error.delay is not None:
            delay = _seconds(error.delay)
        final = isinstance(error, handler.discard_on) or bool(
            handler.retry_on and not isinstance(error, (Retry, *handler.retry_on))
        )
        return self.judge.failed(
            claim,
            cause_name(error),
            self._text(error),
            delay=delay,
            backoff=handler.backoff,
            final=final,
        )

    def _text(self, error: BaseException) -> str:
        return error_text(error, secret=self.secret)

    def _stopped(self, claim: Claim) -> Verdict:
        # The parent sends TERM for a stop, and shortly before a lease ends.
        if self.stopping():
            return self.judge.released(claim, started=True)
        return self.judge.interrupted(claim, "interrupted")

    def _interrupted(self, claim: Claim) -> Verdict:
        return self.judge.interrupted(claim, "connection lost")


def _seconds(delay: Any) -> float:
    """How long a handler wants to wait; what is past is now. InvalidTask for what cannot be stored."""
    return 0.0 if isinstance(delay, int | float) and delay < 0 else check_delay(delay)
