"""Counts of ended attempts by type, small enough to be kept for every minute. Pure.

The parent counts, and tells the maintainer once a period. Types travel as numbers, so that an event
record has room for one; whoever needs the name looks it up among the names that it knows.
"""

import hashlib
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from .wire import Outcome

BUCKETS = 64  # two an octave: from 0.06 ms to a day and a half
_LEAST_OCTAVE = 14  # the first bucket ends near 2**-14 s
_ROOT_HALF = math.sqrt(0.5)
_HEAD = struct.Struct("<qdqqqqq")
_DURATIONS = struct.Struct(f"<{BUCKETS}Q")

# The longest durations, in seconds, that each bucket counts.
UPPER_BOUNDS: tuple[float, ...] = tuple(
    math.pow(2, (n + 1) / 2 - _LEAST_OCTAVE - 1) for n in range(BUCKETS)
)


@lru_cache(maxsize=4096)
def number_of(task_type: str) -> int:
    """The number that stands for a type: 64 bits of its name's hash, never 0."""
    digest = hashlib.blake2b(task_type.encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1


def bucket_of(seconds: float) -> int:
    """Where a duration is counted; what is out of bounds in the first or last one."""
    fraction, exponent = math.frexp(min(seconds, UPPER_BOUNDS[-1]))
    bucket = 2 * (exponent + _LEAST_OCTAVE) + (fraction > _ROOT_HALF)
    return min(max(bucket, 0), BUCKETS - 1) if seconds > 0 else 0


def quantile(durations: Sequence[int], share: float) -> float | None:
    """The duration in seconds that this share of the attempts did not exceed, to a fifth of itself;
    None where nothing was counted."""
    total = sum(durations)
    if not total:
        return None
    wanted, seen = share * total, 0
    for bucket, count in enumerate(durations):
        if count and seen + count >= wanted:
            inside = max(0.0, wanted - seen) / count
            return UPPER_BOUNDS[bucket] * math.pow(2, (inside - 1) / 2)
        seen += count
    return UPPER_BOUNDS[len(durations) - 1]


@dataclass(slots=True)
class Tally:
    """How the attempts of one type ended. `failed` includes those that made their task `dead`;
    `lost` are those whose lease was lost; `seconds` and `durations` are of done and failed ones."""

    type: int  # see `number_of`
    done: int = 0
    failed: int = 0
    dead: int = 0
    released: int = 0
    lost: int = 0
    seconds: float = 0.0
    durations: list[int] = field(default_factory=lambda: [0] * BUCKETS)

    def ended(self, outcome: Outcome, seconds: float) -> None:
        """One attempt has ended after so long."""
        if outcome is Outcome.OK:
            self.done += 1
        elif outcome is Outcome.RETRIED:
            self.failed += 1
        elif outcome is Outcome.DEAD:
            self.failed += 1
            self.dead += 1
        else:
            self.released += outcome is Outcome.RELEASED
            self.lost += outcome is Outcome.LOST
            return
        self.seconds += seconds
        self.durations[bucket_of(seconds)] += 1

    def __add__(self, other: "Tally") -> "Tally":
        """Both together."""
        pairs = zip(self.durations, other.durations, strict=True)
        return Tally(
            self.type,
            self.done + other.done,
            self.failed + other.failed,
            self.dead + other.dead,
            self.released + other.released,
            self.lost + other.lost,
            self.seconds + other.seconds,
            [a + b for a, b in pairs],
        )


def pack_tally(tally: Tally) -> bytes:
    """The record of a tally, whole in one message."""
    counts = (tally.done, tally.failed, tally.dead, tally.released, tally.lost)
    return _HEAD.pack(tally.type, tally.seconds, *counts) + _DURATIONS.pack(*tally.durations)


def unpack_tally(data: bytes) -> Tally:
    """The tally in a message."""
    number, seconds, done, failed, dead, released, lost = _HEAD.unpack_from(data)
    durations = list(_DURATIONS.unpack_from(data, _HEAD.size))
    return Tally(number, done, failed, dead, released, lost, seconds, durations)
