"""Growing delays with a cap, pure: the random source is an argument."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Delays of `first_seconds`, doubled each time, at most `cap_seconds`, with jitter added."""

    first_seconds: float = 1.0
    cap_seconds: float = 64.0
    jitter: float = 0.1

    def delay(self, failures: int, rng: random.Random) -> float:
        """Seconds to wait after the `failures`-th failure in a row (the first is 1)."""
        # The exponent is capped before it is used: 2.0 ** 5000 raises, and a failure path must not.
        base = min(self.cap_seconds, self.first_seconds * 2.0 ** min(max(failures, 1) - 1, 62))
        return base * (1.0 + self.jitter * rng.random())
