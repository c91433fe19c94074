"""Attempts that were cut off through no fault of the task, as far as anybody can tell. Pure.

They cost no attempt, so nothing but `released` tells that they happen again and again.
"""

from ..judge import interruptions_allowed
from ..text import plural, safe

CAUSES = ("lease lost", "lease expired", "connection lost", "disk full", "interrupted")
LEASE_TIMER = "killed by its lease timer"
ADVICE = "perhaps a handler that holds the GIL in C: give it a longer --lease"


def is_one(cause: str | None) -> bool:
    """Whether a task that is not dead was interrupted the last time; a graceful stop is not that."""
    return cause is not None and (cause in CAUSES or cause.startswith(LEASE_TIMER))


def told(released: int, max_attempts: int | None, cause: str | None) -> str | None:
    """How often, how often at most, by what, and what to do; None where there is nothing to tell."""
    if not released or not is_one(cause):
        return None
    most = "" if max_attempts is None else f" (dead after {interruptions_allowed(max_attempts)})"
    advice = f"; {ADVICE}" if cause and cause.startswith(LEASE_TIMER) else ""
    times = plural(released, "time")
    return f"interrupted {times} without charge{most}, last: {safe(cause or '', 200)}{advice}"


def pattern() -> str:
    """The same as `is_one`, as a regular expression for PostgreSQL."""
    return f"^({'|'.join(CAUSES)})$|^{LEASE_TIMER}"
