"""Time, chance, and what goes wrong: one seed, one history."""

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True)
class Mix:
    """What kind of history: how many take part, what may go wrong, and how often."""

    fleets: int = 2
    procs: int = 3
    tasks: int = 12  # kept in the queue while faults strike
    lease_seconds: float = 6.0
    every_seconds: float = 0.15  # between two faults, in the mean
    faults: dict[str, float] = field(default_factory=dict)  # weights; empty: all of them
    fates: float = 0.2  # share of statements that are cut or held up
    longest_stall_seconds: float = 6.0
    terminate: bool | None = None  # whether sessions of the dead may be ended; None: by chance
    timer: bool = True
    kinds: dict[str, float] = field(default_factory=dict)  # of tasks, by weight
    forgets: bool = False  # failovers that lose the last writes
    resolved_seconds: float | None = None  # bound for what a dead worker held, its parent alive


class World:
    """The clock and the calendar of everybody in one history."""

    def __init__(self, seed: int, mix: Mix, broken: frozenset[str] = frozenset()) -> None:
        self.seed = seed
        self.mix = mix
        self.broken = broken
        self.rng = random.Random(seed)
        self.time = 1000.0
        self.calm = False
        self.faults: Counter[str] = Counter()
        self.procs: dict[int, Any] = {}  # pid -> process
        self._calendar: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0
        self._pid = 100

    def now(self) -> float:
        """The local clock of every host."""
        return self.time

    def at(self, when: float, call: Callable[..., object], *args: Any) -> None:
        self._number += 1
        heapq.heappush(self._calendar, (max(when, self.time), self._number, call, args))

    def after(self, seconds: float, call: Callable[..., object], *args: Any) -> None:
        self._number += 1
        heapq.heappush(self._calendar, (self.time + seconds, self._number, call, args))

    def run(self, until: float) -> None:
        """Let things happen up to this time."""
        calendar = self._calendar
        while calendar and calendar[0][0] <= until:
            self.time, _, call, args = heapq.heappop(calendar)
            call(*args)
        self.time = until

    def fault(self, name: str) -> None:
        self.faults[name] += 1

    def new_pid(self) -> int:
        self._pid += 1
        return self._pid

    def new_id(self) -> bytes:
        return self.rng.randbytes(16)
