"""Many histories: until something breaks, or there were enough faults."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from .history import History
from .mutations import FORGETS, LONG, NO_TIMER, PROMPT, STALLS, Guard
from .world import Mix, Violation

# What an ordinary campaign goes through, in turn.
MIXES = [
    Mix(),
    STALLS,
    Mix(terminate=False),
    LONG,
    FORGETS,
    NO_TIMER,
    Mix(fleets=1, procs=2),
    PROMPT,
]
FAULTS_EACH = 1500


@dataclass
class Result:
    """What struck, and what broke: the seeds, each with the words."""

    faults: Counter[str] = field(default_factory=Counter)
    done: int = 0  # tasks that came to their effect
    broken: list[tuple[int, str]] = field(default_factory=list)

    def __add__(self, other: "Result") -> "Result":
        return Result(
            self.faults + other.faults, self.done + other.done, self.broken + other.broken
        )


def play(seed: int, mix: Mix | None = None, broken: frozenset[str] = frozenset(),
         faults: int = FAULTS_EACH) -> Result:  # fmt: skip
    """One history; which kind, its seed says, unless told."""
    with _uncollected():
        return _play(seed, mix, broken, faults)


@contextmanager
def _uncollected() -> Iterator[None]:
    """What a history leaves hangs together until its end: to look for garbage before is in vain."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


def _play(seed: int, mix: Mix | None, broken: frozenset[str], faults: int) -> Result:
    history = History(seed, mix or MIXES[seed % len(MIXES)], broken)
    result = Result()
    try:
        history.play(faults)
    except Violation as violation:
        result.broken.append((seed, str(violation)))
    result.faults += history.world.faults
    result.done = sum(history.db.effects.values())
    return result


def caught(guard: Guard, most: int = 60_000) -> Result:
    """Play without this guard until somebody notices, through at most so many faults."""
    result, seed = Result(), guard.seed
    with guard.out():
        while not result.broken and result.faults.total() < most:
            result += play(seed, replace(guard.mix), guard.broken, faults=400)
            seed += 1
    return result
