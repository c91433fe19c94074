"""What a worker does with the tasks that it claims in one session."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .. import faults
from ..clock import now
from ..config import FleetConfig
from ..judge import Claim, Judge
from ..logpipe import LogPipe
from ..registry import Handler, Registry
from ..store import ending
from ..store.claim import Row
from ..task import Task
from ..text import attempts
from ..wire import EventWriter, Kind, Outcome, Token
from .attempt import Attempts, Ended
from .group import Group, may_share
from .handoff import Handoff
from .lifeline import Lifeline
from .pace import BATCH_SECONDS, Pace
from .session import Session

THOROUGH_EVERY = 100  # tasks, after which the session is reset whatever has been seen


@dataclass
class Executor:
    """Works through batches. `done` are rows still to be deleted, the oldest first."""

    config: FleetConfig
    session: Session
    registry: Registry
    attempts: Attempts
    judge: Judge
    events: EventWriter
    lifeline: Lifeline
    handoff: Handoff
    pace: Pace
    log: LogPipe
    tidy: Callable[[bool], None]
    done: list[Token] = field(default_factory=list)
    started: int = 0
    _first_done_at: float = 0.0

    def work_through(self, rows: Sequence[Row]) -> None:
        """Begin every row that nobody takes back meanwhile; a stop gives the rest back."""
        first, rest = self._lay_out(rows)
        handler = self.registry[first.task_type]
        row: Row | None = first
        if rest and handler.group:
            row = Group(self, handler).run(first, self.handoff.next)
        while row is not None and not self.lifeline.stopping:
            self.run(handler, row)
            row = self.handoff.next()
        self.events.flush()
        if row is not None:
            self.give_back([Token(row.task_id, row.fence), *self.handoff.take_all()])

    def _lay_out(self, rows: Sequence[Row]) -> tuple[Row, Sequence[Row]]:
        """The row to begin with, and those whose tokens are laid out behind it.

        One found by a sweep runs alone, so that the next time it is known to have begun.
        """
        self.pace.claimed(rows[0].task_type, len(rows))
        alone = next((row for row in rows if row.solo), None)
        if alone is not None and len(rows) > 1:
            self.give_back([Token(r.task_id, r.fence) for r in rows if r is not alone])
            rows = [alone]
        rows = sorted(rows, key=may_share, reverse=True)
        self.handoff.put(rows[1:])
        return rows[0], rows[1:]

    def give_back(self, tokens: Sequence[Token]) -> None:
        """What was claimed and never begun is ready again, its attempt refunded."""
        ending.hand_back(self.session.conn, self.session.worker_id, tokens)

    def run(self, handler: Handler, row: Row) -> None:
        """From STARTED to FINISHED, or to DONE."""
        claim = row.claim
        task = self.begin(handler, row)
        began = time.monotonic()
        ended = self.attempts.run(
            handler,
            task,
            claim,
            lambda: self.events.send(Kind.ENDING, task=task.id, fence=task.fence),
        )
        seconds = time.monotonic() - began
        self.pace.took(task.type, seconds)
        if ended.done:
            self._note_done(claim)
        else:
            self.finished(claim, ended.outcome)
        self.tell(task, ended, seconds)
        self.tidy(self.started % THOROUGH_EVERY == 0)

    def begin(self, handler: Handler, row: Row) -> Task:
        """Say that the handler starts; what it is given."""
        limit = handler.timeout if handler.timeout is not None else self.config.timeout_seconds
        limit_at = now() + limit if limit else None
        self.started += 1
        self.events.send(Kind.STARTED, task=row.task_id, fence=row.fence, at=limit_at or 0.0)
        faults.point("after_started")
        return row.task(limit_at, self._report_progress)

    def _report_progress(self, task: Task, done: int, total: int) -> None:
        self.events.send(Kind.PROGRESS, task=task.id, fence=total, count=done)

    # -- deletions that travel together -----------------------------------------------------------

    def _note_done(self, claim: Claim) -> None:
        """Its deletion travels with others, at most 20 ms or until the next claim."""
        if not self.done:
            self._first_done_at = time.monotonic()
        self.done.append(Token(claim.task_id, claim.fence))
        self.events.defer(Kind.DONE, task=claim.task_id, fence=claim.fence)
        if time.monotonic() - self._first_done_at > BATCH_SECONDS:
            self.clear()

    def clear(self) -> None:
        """Delete what is done, in a statement of its own."""
        self.events.flush()
        if self.done:
            ending.delete_done(self.session.conn, self.session.worker_id, self.done)
            self.cleared()

    def cleared(self) -> None:
        """What was done has been deleted."""
        if self.done:
            self.events.send(Kind.CLEARED, count=len(self.done))
            self.done.clear()

    # -- telling ----------------------------------------------------------------------------------

    def finished(self, claim: Claim, outcome: Outcome) -> None:
        """The claim is over; the parent hears of it with the next event."""
        self.events.defer(Kind.FINISHED, task=claim.task_id, fence=claim.fence, flag=outcome)

    def tell(self, task: Task, ended: Ended, seconds: float) -> None:
        """Log how it went; people hear only of what people must fix."""
        outcome, verdict = ended.outcome, ended.verdict
        if outcome is Outcome.OK and not self.log.tells("debug"):
            return
        fields: dict[str, object] = {
            "task": task.id,
            "type": task.type,
            "queue": task.queue,
            "attempt": task.attempt,
            "seconds": round(seconds, 3),
        }
        what = f"{task.type} {task.id}"
        if outcome is Outcome.OK:
            self.log.debug("done", f"{what} done", **fields)
        elif outcome is Outcome.LOST:
            self.log.warning("lost_lease", f"{what} lost lease: nothing was written", **fields)
        elif verdict is not None:
            fields |= {"cause": verdict.cause, "error": verdict.error}
            why = verdict.error or verdict.cause
            if outcome is Outcome.DEAD:
                self.log.error(
                    "dead", f"{what} is dead after {attempts(task.attempt)}: {why}", **fields
                )
            else:
                word = outcome.name.lower()
                self.log.info(word, f"{what} {word}: {why}", **fields)
