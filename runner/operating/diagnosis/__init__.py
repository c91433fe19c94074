"""What a doctor finds: one line a check, with what to do about it. Pure: facts come from the store."""

from collections.abc import Iterable
from typing import NamedTuple

OK, WARN, FAIL = "ok", "warn", "fail"


class Finding(NamedTuple):
    """The outcome of one check: `ok`, `warn` (look at it) or `fail` (a promise does not hold)."""

    check: str
    result: str
    found: str
    advice: str | None = None


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, OK, found)


def warn(check: str, found: str, advice: str) -> Finding:
    """It works, and will not for long, or costs more than it must."""
    return Finding(check, WARN, found, advice)


def fail(check: str, found: str, advice: str) -> Finding:
    """Something that is promised does not hold here."""
    return Finding(check, FAIL, found, advice)


def failed(findings: Iterable[Finding]) -> bool:
    """Whether any check failed."""
    return any(one.result == FAIL for one in findings)


def several(count: int, one: str, many: str | None = None) -> str:
    """`1 task`, `3 tasks`."""
    return f"{count} {one if count == 1 else many or one + 's'}"
