"""The local clock of every deadline: seconds since boot, suspend included, never set by anyone."""

import time


def _source() -> int:
    try:
        time.clock_gettime(time.CLOCK_BOOTTIME)
    except (AttributeError, OSError):  # not Linux, or a faked clock that lacks it
        return time.CLOCK_MONOTONIC
    return time.CLOCK_BOOTTIME


CLOCK_ID = _source()


def now() -> float:
    """Seconds on this host's clock; comparable between its processes, meaningless elsewhere."""
    return time.clock_gettime(CLOCK_ID)
