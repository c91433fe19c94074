"""How many tasks of a type make about 50 ms of work. Pure: durations are arguments."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ..wire import MOST_TOKENS

BATCH_SECONDS = 0.05
MOST = MOST_TOKENS
WEIGHT = 0.2  # of the newest duration in the running mean
GROWTH = 4  # from one batch to the next: a type that is new to us must prove to be short


@dataclass
class Pace:
    """Running means of durations by type, as this worker has seen them."""

    _mean: dict[str, float] = field(default_factory=dict)
    _last: dict[str, int] = field(default_factory=dict)

    def took(self, task_type: str, seconds: float) -> None:
        """One task of this type has taken so long, its completion included.

        A single long one counts at once: better a few small batches than one that hoards.
        """
        mean = self._mean.get(task_type, seconds)
        weight = 1.0 if seconds > BATCH_SECONDS > mean else WEIGHT
        self._mean[task_type] = mean + weight * (seconds - mean)

    def wanted(self, task_type: str) -> int:
        """How many to claim next: one at first, then more and more while they stay short."""
        mean = self._mean.get(task_type)
        if mean is None:
            return 1
        most = self._last.get(task_type, 1) * GROWTH
        return max(1, min(MOST, most, int(BATCH_SECONDS / max(mean, 1e-6))))

    def up_to(self, most: int) -> Callable[[str], int]:
        """The same by type, and never more than so many."""
        return lambda task_type: min(most, self.wanted(task_type))

    def claimed(self, task_type: str, count: int) -> None:
        """So many were got at once."""
        self._last[task_type] = max(count, self._last.get(task_type, 1) // GROWTH)

    def alone(self, task_type: str) -> None:
        """Only one of what was got could be run, and the rest was given back: there may be more like it,
        and whoever gives back hundreds for each of them is never through."""
        self._last[task_type] = 1
