"""What a worker does with the tasks that it claims in one session."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .. import faults
from ..judge import Claim
from ..registry import Handler, Registry
from ..store import ending
from ..store.ahead import NotRead
from ..store.claim import Row
from ..task import Task
from ..wire import Kind, Token
from .attempt import COMPLETED, Attempts, Ended
from .group import Group, may_share
from .handoff import Handoff, together
from .pace import Pace
from .session import Session, meant
from .telling import Telling

CLEAR_SECONDS = 0.02  # what is done may wait so long for its deletion
THOROUGH_EVERY = 1000  # tasks that used it, after which the session is reset whatever has been seen


class Sent(NamedTuple):
    """A task whose completion is sent: it is known to be committed when the next handler is through."""

    handler: Handler
    task: Task
    claim: Claim
    seconds: float


@dataclass
class Executor:
    """Works through batches. `done` are rows still to be deleted, the oldest first."""

    session: Session
    registry: Registry
    attempts: Attempts
    telling: Telling
    handoff: Handoff
    pace: Pace
    stopping: Callable[[], bool]
    done: list[Token] = field(default_factory=list)
    _next: Row | None = None
    _sent: Sent | None = None
    _first_done_at: float = 0.0
    _used: int = 0  # how often a handler has used the connection

    def work_through(self, rows: Sequence[Row]) -> None:
        """Begin every row that nobody takes back meanwhile; a stop gives the rest back."""
        try:
            self._begin_each(rows)
        finally:
            self.attempts.calling.end_batch()

    def _begin_each(self, rows: Sequence[Row]) -> None:
        first, rest = self._lay_out(rows)
        handler = self.registry[first.task_type]
        row: Row | None = first
        if rest and handler.group:
            row = self._run_group(handler, first)
        while row is not None and not self.stopping():
            self._next = None
            self.run(handler, row)
            row = self._next or self.handoff.next()
        self.session.conn.answer()  # a stop came before the next handler
        self._end_sent()
        self.telling.events.flush()
        if row is not None:
            self.give_back([Token(row.task_id, row.fence), *self.handoff.take_all()])

    def _lay_out(self, rows: Sequence[Row]) -> tuple[Row, Sequence[Row]]:
        """The row to begin with, and those whose tokens are laid out behind it."""
        self.pace.claimed(rows[0].task_type, len(rows))
        rows, others = together(rows)
        if others:
            self.telling.events.flush()
            self.give_back([Token(row.task_id, row.fence) for row in others])
            self.pace.alone(rows[0].task_type)
        rows = sorted(rows, key=may_share, reverse=True)
        self.handoff.put(rows[1:])
        return rows[0], rows[1:]

    def give_back(self, tokens: Sequence[Token]) -> None:
        """What was claimed and never begun is ready again, its attempt refunded."""
        ending.hand_back(self.session.conn, self.session.worker_id, tokens)

    def run(self, handler: Handler, row: Row) -> None:
        """From STARTED to FINISHED, or to DONE."""
        claim = row.claim
        task = self.telling.begin(handler, row)
        began = time.monotonic()
        ended = self.attempts.run(handler, task, claim, self._ending, self._follows)
        seconds = time.monotonic() - began
        self.pace.took(task.type, seconds)
        if ended.done:
            self._note_done(claim, seconds)
            self.telling.tell(task, ended, seconds)
        elif self.session.conn.unanswered:
            self._sent = Sent(handler, task, claim, seconds)
        else:
            self._finished(task, claim, ended, seconds)
        if self._sent is not None and not self.session.conn.unanswered:
            self._end_sent()  # behind what is known of this one: it may end the identity
        if self.done:
            self.clear_late()
        self.tidy(used=not ended.done)

    def _finished(self, task: Task, claim: Claim, ended: Ended, seconds: float) -> None:
        self.telling.finished(claim, ended.outcome, seconds)
        self.telling.tell(task, ended, seconds)

    def _ending(self, claim: Claim) -> None:
        """Precedes every statement that ends a claim. The one before is answered by now; where it has
        failed, that is written when this one is through: the transaction is this one's."""
        conn = self.session.conn
        if self._sent is not None and not conn.unanswered and conn.late is None:
            self._end_sent()
        self.telling.ending(claim)

    def _end_sent(self) -> None:
        """Tell of the task whose completion was not waited for; write what has failed of it."""
        if self._sent is None:
            return
        (handler, task, claim, seconds), self._sent = self._sent, None
        ended = COMPLETED
        if (late := self.session.conn.late) is not None:
            if not isinstance(late, NotRead):
                self.session.uncertain = None
            self.session.conn.late = None
            ended = self.attempts.end_late(meant(late), handler, task, claim)
        self.session.uncertain = None
        self._finished(task, claim, ended, seconds)

    def _follows(self) -> bool:
        """Take the row that comes next, which is ours to begin from now on; whether its transaction
        is to be begun ahead."""
        if self.stopping() or self.done or self._sent is not None:
            return False
        self._next = self.handoff.next()
        return self._next is not None and self._next.idempotency_key is None

    def tidy(self, *, used: bool) -> None:
        """Undo what a handler left on the connection, and in the session where it used that."""
        self._used += used
        self.session.conn.restore(thorough=used and self._used % THOROUGH_EVERY == 0)

    def _run_group(self, handler: Handler, first: Row) -> Row | None:
        """Run a group; the first row that is to run by itself, not begun."""
        self.telling.events.flush()  # what was claimed is told before a statement of ours may wait
        self.session.conn.restore()  # where anything is left of before this batch
        began = time.monotonic()
        group = Group(self.session, handler, self.attempts, self.telling, self.stopping)
        row = group.run(first, self.handoff.next)
        seconds = time.monotonic() - began
        self.pace.took(handler.name, seconds / max(1, len(group.members)))
        self.tidy(used=True)
        return row

    # -- deletions that travel together -----------------------------------------------------------

    def _note_done(self, claim: Claim, seconds: float) -> None:
        """Its deletion travels with others: until the next claim, or the first end 20 ms later. Behind a
        long task the parent has it deleted."""
        if not self.done:
            self._first_done_at = time.monotonic()
        self.done.append(Token(claim.task_id, claim.fence))
        self.telling.done(claim, seconds)

    def clear_late(self) -> None:
        """Delete what is done if that has waited for long enough."""
        if time.monotonic() - self._first_done_at > CLEAR_SECONDS:
            self.clear()

    def clear(self) -> None:
        """Delete what is done, in a statement of its own."""
        self.telling.events.flush()
        if self.done:
            faults.point("before_clear")
            ending.delete_done(self.session.conn, self.session.worker_id, self.done)
            self.cleared()

    def cleared(self) -> None:
        """What was done has been deleted."""
        if self.done:
            self.telling.events.send(Kind.CLEARED, count=len(self.done))
            self.done.clear()
