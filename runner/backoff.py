"""Growing delays with a cap, pure: the random source is an argument."""

import random
from dataclasses import dataclass

from .units import parse_duration


@dataclass(frozen=True)
class Backoff:
    """Delays of `first_seconds`, doubled each time, at most `cap_seconds`, with jitter added."""

    first_seconds: float = 1.0
    cap_seconds: float = 64.0
    jitter: float = 0.1

    @classmethod
    def parse(cls, text: str) -> "Backoff":
        """From `1s:64s`, first and cap, or `1s`; ValueError that says what is wrong."""
        first, has_cap, cap = text.partition(":")
        seconds = parse_duration(first)
        backoff = cls(seconds, parse_duration(cap) if has_cap else max(seconds, cls.cap_seconds))
        if not 0 < backoff.first_seconds <= backoff.cap_seconds:
            raise ValueError(f"{text[:40]!a}: the first delay must be above 0 and at most the cap")
        return backoff

    def delay(self, failures: int, rng: random.Random) -> float:
        """Seconds to wait after the `failures`-th failure in a row (the first is 1)."""
        # The exponent is capped before it is used: 2.0 ** 5000 raises, and a failure path must not.
        base = min(self.cap_seconds, self.first_seconds * 2.0 ** min(max(failures, 1) - 1, 62))
        return base * (1.0 + self.jitter * rng.random())
