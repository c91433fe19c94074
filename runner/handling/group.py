"""A group: short tasks of one type that share one transaction, each behind a savepoint.

Opt-in, by `@task(group=True)`, for handlers whose effects are in the database only. A handler that
raises is rolled back to its savepoint and fails by itself; the others are deleted and committed
together. When that fails, all of them are given back, to be run one by one: a task that was released
before never shares a transaction.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import psycopg

from .. import faults
from ..judge import Claim, Verdict
from ..registry import Handler
from ..store.claim import Row
from ..task import Task
from ..wire import Outcome, Token
from .attempt import Attempts, Ended
from .session import Left, Session
from .telling import Telling


def may_share(row: Row) -> bool:
    """Whether a row may share a transaction with others."""
    return not (row.idempotency_key or row.attempt > 1 or row.released or row.solo)


class Member(NamedTuple):
    """A task of the group whose handler is through."""

    task: Task
    claim: Claim
    verdict: Verdict | None = None
    error: BaseException | None = None


class Group:
    """Runs one group."""

    def __init__(
        self,
        session: Session,
        handler: Handler,
        attempts: Attempts,
        telling: Telling,
        stopping: Callable[[], bool],
    ) -> None:
        self.session = session
        self.handler = handler
        self.attempts = attempts
        self.judge = attempts.judge
        self.telling = telling
        self.stopping = stopping
        self.members: list[Member] = []

    def run(self, first: Row, following: Callable[[], Row | None]) -> Row | None:
        """Run rows that may share, then end them all; the first row that may not, not begun."""
        if not may_share(first):
            return first
        conn = self.session.conn
        row: Row | None = first
        began = time.monotonic()
        try:
            conn.begin_group()
            # Whoever has changed the session is the last: that is put back when the transaction is over.
            while row is not None and may_share(row) and not (conn.traces or self.stopping()):
                self._run_member(row)
                row = following()
        except psycopg.Error as error:
            self._undo(error)
            if self.members:  # then the row at hand is one, and is given back with the others
                row = following()
        else:
            self._commit()
        self._end(time.monotonic() - began)
        return row

    def _run_member(self, row: Row) -> None:
        """One handler; psycopg.Error when the transaction cannot go on after it."""
        conn = self.session.conn
        claim = row.claim
        task = self.telling.begin(self.handler, row)
        conn.lend_again()
        error = self.attempts.calling.call(self.handler, conn, task)
        conn.take_back(one_statement=False)
        if conn.unsent is not None:  # it was a member before this one that broke the transaction
            self.members.append(Member(task, claim))
            raise conn.unsent
        error = error or self.attempts.misuse()
        if error is None:
            self.members.append(Member(task, claim))
            conn.keep_member()
            faults.point("in_group")
            return
        verdict = self.attempts.verdict(error, self.handler, claim)
        self.members.append(Member(task, claim, verdict, error))
        conn.undo_member()

    def _good(self) -> list[Member]:
        return [member for member in self.members if member.verdict is None]

    def _commit(self) -> None:
        """Delete and commit those that succeeded; if that fails, they run again one by one."""
        self._announce_end()
        done = [Token(one.claim.task_id, one.claim.fence) for one in self._good()]
        try:
            faults.point("before_group_commit")
            self.session.complete_group(done)
            faults.point("after_group_commit")
        except psycopg.Error as error:
            self._undo(error)
        except Exception:
            self._undo(None)

    def _undo(self, error: psycopg.Error | None) -> None:
        """Roll back; nobody's effect stands, and nobody is charged for what it met: that may have been
        another's."""
        self._announce_end()
        self.members = [
            one._replace(verdict=None, error=None) if one.verdict and one.verdict.failed else one
            for one in self.members
        ]
        if error is not None and self.session.broken_by(error):
            self._give_up(error)
        try:
            self.session.conn.end(b"ROLLBACK")
        except psycopg.Error as trouble:
            self._give_up(trouble)
        self.members = [
            one if one.verdict else one._replace(verdict=self.judge.ungrouped(one.claim))
            for one in self.members
        ]

    def _give_up(self, error: psycopg.Error) -> None:
        self.session.give_up(error, [self._left(one) for one in self.members])

    def _left(self, one: Member) -> Left:
        if one.verdict is not None:
            verdict = one.verdict
            return Left(one.claim, lambda claim: verdict)
        return Left(one.claim, self.judge.ungrouped, committing=True)

    def _announce_end(self) -> None:
        if self.members:
            self.telling.ending(self.members[-1].claim)

    def _end(self, seconds: float) -> None:
        """Write what is not written yet, and tell how each came out, and its share of the time."""
        seconds /= max(1, len(self.members))
        for number, one in enumerate(self.members):
            outcome = Outcome.OK
            if one.verdict is not None:
                outcome = self._write(one, self.members[number + 1 :])
                if one.error is not None and one.verdict.failed:
                    self.attempts.on_error(one.task, one.error)
            self.telling.finished(one.claim, outcome, seconds)
            self.telling.tell(one.task, Ended(outcome, one.verdict), seconds)

    def _write(self, one: Member, later: list[Member]) -> Outcome:
        assert one.verdict is not None
        try:
            return self.session.write(one.claim, one.verdict)
        except Exception as lost:
            waiting = [self._left(other) for other in later if other.verdict is not None]
            lost.left = [*getattr(lost, "left", ()), *waiting]  # type: ignore[attr-defined]
            raise
