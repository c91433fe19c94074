"""When which fault strikes: drawn from a seed alone, so that a seed replays it. Pure."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

FIRST_SECONDS = 3.0  # until fleets are at work


@dataclass(frozen=True, order=True)
class Strike:
    """A fault that is due; `seed` decides whom it meets and for how long. Time in seconds."""

    at: float
    fault: str
    seed: int


def schedule(per_minute: Mapping[str, float], seconds: float, seed: int) -> list[Strike]:
    """Each fault at random times, so often a minute on average, in the order of time.

    A fault has a sequence of its own: adding another one leaves the others where they were.
    """
    strikes: list[Strike] = []
    for fault, rate in per_minute.items():
        rng = random.Random(f"{seed} {fault}")
        at = rng.expovariate(rate / 60) if rate else float("inf")
        while at < seconds:
            strikes.append(Strike(at, fault, rng.getrandbits(32)))
            at += rng.expovariate(rate / 60)
    return sorted(strikes)


def in_turns(
    faults: Sequence[str], every_seconds: float, seconds: float, seed: int
) -> list[Strike]:
    """One fault after the other, never two at once."""
    rng = random.Random(seed)
    times = [
        every_seconds * number + FIRST_SECONDS for number in range(int(seconds // every_seconds))
    ]
    turns = zip(times, cycle(faults), strict=False)
    return [Strike(at, fault, rng.getrandbits(32)) for at, fault in turns]
