"""When a child may be started again. Pure: the clock is an argument."""

from dataclasses import dataclass, field

FIRST_SECONDS = 0.1
CAP_SECONDS = 10.0
HOPELESS = 5


@dataclass
class Starts:
    """Counts starts that failed before HELLO; deaths after it are replaced at once."""

    in_a_row: int = 0
    _not_before: dict[str, float] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)

    def succeeded(self, role: str) -> None:
        """A child of this role said HELLO."""
        self.in_a_row = 0
        self._failures.pop(role, None)
        self._not_before.pop(role, None)

    def failed(self, role: str, now: float) -> None:
        """A child of this role died before its HELLO, or could not even be forked."""
        self.in_a_row += 1
        failures = self._failures[role] = self._failures.get(role, 0) + 1
        delay = min(CAP_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - 1, 30))
        self._not_before[role] = now + delay

    def no_room(self, role: str, now: float) -> None:
        """The system could not fork another one: a reason to wait, never to give up."""
        self.failed(role, now)
        self.in_a_row -= 1

    def allowed_at(self, role: str) -> float:
        """The earliest local time at which the next child of this role may start."""
        return self._not_before.get(role, 0.0)

    def next_after(self, now: float) -> float:
        """The next local time at which a start that was put off may be tried; infinity: none was."""
        return min((at for at in self._not_before.values() if at > now), default=float("inf"))

    @property
    def hopeless(self) -> bool:
        """Five failures in a row, without a HELLO anywhere in between."""
        return self.in_a_row >= HOPELESS
