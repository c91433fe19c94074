"""How a run stands: what has happened, and whether and why it is coming to its end."""

from collections import Counter
from dataclasses import dataclass, field

from ..clock import now
from ..wire import How, Outcome, Settle
from .child import Stop
from .goals import View
from .tallies import Tallies

SAME_STOP_SECONDS = 0.5


@dataclass
class Report:
    """How a fleet ended."""

    exit_code: int
    reason: str
    tally: Counter[Outcome]
    starts: int
    seconds: float


@dataclass
class Course:
    """Shared by the parts of the parent. Its stop is set once, and may then be forced once."""

    tallies: Tallies
    view: View = field(default_factory=lambda: View(started_at=now()))
    stop: Stop | None = None
    exit_code: int = 0
    reason: str = "stopped"
    deaths: int = 0  # that nobody asked for
    last_death: tuple[float, str] | None = None  # when, and in words

    def end(self, reason: str, exit_code: int = 0) -> bool:
        """Begin the stop; False when it had begun before."""
        if self.stop is not None:
            return False
        self.stop = Stop(now())
        self.reason = reason
        self.exit_code = exit_code
        return True

    def force(self, exit_code: int) -> bool:
        """Stop at once; False when this is still the first signal, or was forced before."""
        at = now()
        if self.stop is None or self.stop.forced_at is not None:
            return False
        if at - self.stop.at < SAME_STOP_SECONDS:
            return False
        self.stop.forced_at = at
        self.exit_code = exit_code
        return True

    def changed(self, at: float) -> None:
        """A claim ended, somebody died, or tasks became ready, not after this time: earlier empty looks
        prove nothing."""
        self.view.changed_at = at

    def mourn(self, text: str) -> None:
        """A child has died that was to live."""
        self.deaths += 1
        self.last_death = (now(), text)

    def ended(self, outcome: Outcome, task_type: int, seconds: float, at: float) -> None:
        """An attempt at a task of this type has ended, whoever wrote how."""
        self._ended(outcome, at)
        self.tallies.ended(task_type, outcome, seconds)

    def settled(self, settle: Settle, outcome: Outcome, sent: Outcome) -> None:
        """What a dead worker had begun has been settled, and what it had sent before; NONE where there
        was no such task.

        Each attempt has one end: that its task was given back is how a lost lease ends.
        """
        if sent:
            self.ended(sent, settle.type, settle.sent_seconds, now())
        if not outcome:
            return
        self._ended(outcome, now())
        given_back = outcome in (Outcome.RELEASED, Outcome.NONE)
        lost = given_back and settle.how is How.LEASE_LOST
        self.tallies.ended(settle.type, Outcome.LOST if lost else outcome, settle.seconds)

    def _ended(self, outcome: Outcome, at: float) -> None:
        self.changed(at)
        self.view.tally[outcome] += 1

    def report(self) -> Report:
        """What the command is told at the end."""
        seconds = now() - self.view.started_at
        return Report(self.exit_code, self.reason, self.view.tally, self.view.starts, seconds)
