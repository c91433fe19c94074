"""What is said of each task: to the parent, by events, and to people, in the log."""

from dataclasses import dataclass

from .. import faults
from ..clock import now
from ..config import FleetConfig
from ..judge import Claim
from ..logpipe import LogPipe
from ..registry import Handler
from ..saying import say
from ..store.claim import Row
from ..tally import number_of
from ..task import Task
from ..wire import EventWriter, Kind, Outcome
from .attempt import Ended


@dataclass
class Telling:
    """Counts the handlers begun."""

    config: FleetConfig
    events: EventWriter
    log: LogPipe
    started: int = 0

    def __post_init__(self) -> None:
        self._says_all = self.log.tells("debug")

    def begin(self, handler: Handler, row: Row) -> Task:
        """Say that the handler starts; what it is given."""
        limit = handler.timeout if handler.timeout is not None else self.config.timeout_seconds
        limit_at = now() + limit if limit else None
        self.started += 1
        number = number_of(row.task_type)
        self.events.send(
            Kind.STARTED, task=row.task_id, fence=row.fence, at=limit_at or 0.0, count=number
        )
        if self.started == self.config.max_tasks_per_child:
            # Said while the last one runs, so that who follows is ready when it ends.
            self.events.send(Kind.WORN, flag=1)
        faults.point("after_started")
        return row.task(limit_at, self._progress)

    def _progress(self, task: Task, done: int, total: int) -> None:
        self.events.send(Kind.PROGRESS, task=task.id, fence=total, count=done)

    def ending(self, claim: Claim) -> None:
        """Precedes every statement that ends the claim."""
        self.events.send(Kind.ENDING, task=claim.task_id, fence=claim.fence)

    def finished(self, claim: Claim, outcome: Outcome, seconds: float) -> None:
        """The claim is over; the parent hears of it with the next event."""
        self.events.defer(
            Kind.FINISHED, task=claim.task_id, fence=claim.fence, at=seconds, flag=outcome
        )

    def done(self, claim: Claim, seconds: float) -> None:
        """The handler is through, and its row is still to be deleted."""
        self.events.defer(Kind.DONE, task=claim.task_id, fence=claim.fence, at=seconds)

    def tell(self, task: Task, ended: Ended, seconds: float) -> None:
        """Log how it went; people hear only of what people must fix."""
        outcome, verdict = ended.outcome, ended.verdict
        if outcome is Outcome.OK and not self._says_all:
            return
        cause, error = (verdict.cause, verdict.error) if verdict is not None else (None, None)
        said = say(task.type, task.id, outcome, task.attempt, error or cause)
        self.log.emit(
            *said,
            task=task.id,
            type=task.type,
            queue=task.queue,
            attempt=task.attempt,
            seconds=round(seconds, 3),
            cause=cause,
            error=error,
        )
