"""Waiting for facts."""

import time
from collections.abc import Callable

LOOK_SECONDS = 0.02


def until(fact: Callable[[], object], why: str, seconds: float = 60.0) -> None:
    """Wait for a fact; TimeoutError with its name."""
    end = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:.0f} s: {why}")
        time.sleep(LOOK_SECONDS)
