"""How fast things go, from totals that were seen at some times. Pure."""

import itertools
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

WINDOW_SECONDS = 10.0
KEPT = 240  # samples: as many as the widest sparkline shows


@dataclass(frozen=True, slots=True)
class Sample:
    """Totals at a local time."""

    at: float
    done: int
    failed: int


@dataclass(slots=True)
class Meter:
    """Sums up what each counter has grown by. One that starts anew, or is gone, takes nothing back."""

    total: Sample = Sample(0.0, 0, 0)
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=KEPT))
    _seen: dict[Hashable, tuple[int, int]] = field(default_factory=dict)

    def add(
        self, at: float, counters: Mapping[Hashable, tuple[int, int]], in_steps: bool = False
    ) -> None:
        """What the counters (done, failed) say now; one seen first is where it begins.

        `in_steps`: they are written now and then only, so that no change says nothing for a while.
        """
        if in_steps and counters == self._seen and at - self.total.at < WINDOW_SECONDS:
            return
        done, failed = self.total.done, self.total.failed
        for name, (new_done, new_failed) in counters.items():
            old_done, old_failed = self._seen.get(name, (new_done, new_failed))
            done += max(0, new_done - old_done)
            failed += max(0, new_failed - old_failed)
        self._seen = dict(counters)
        self.total = Sample(at, done, failed)
        self.samples.append(self.total)

    def per_second(self, now: float) -> tuple[float, float] | None:
        """Done and failed a second over the last moments; None before two samples."""
        if len(self.samples) < 2:
            return None
        last = self.samples[-1]
        within = [one for one in self.samples if one.at >= last.at - WINDOW_SECONDS]
        first = within[0] if len(within) > 1 else self.samples[-2]
        seconds = max(now - first.at, 1e-9)
        return (last.done - first.done) / seconds, (last.failed - first.failed) / seconds

    def history(self, count: int) -> list[tuple[float, float]]:
        """Done and failed a second between each two of the last samples, oldest first."""
        some = list(self.samples)[-(count + 1) :]
        pairs = itertools.pairwise(some)
        return [
            ((b.done - a.done) / gap, (b.failed - a.failed) / gap)
            for a, b in pairs
            if (gap := b.at - a.at) > 0
        ]
