"""The options of a handler, checked and brought into one form."""

from collections.abc import Callable
from typing import Any

from ..backoff import Backoff
from ..errors import AppError
from ..fields import check_max_attempts
from ..text import class_name, safe
from ..units import LONGEST_SECONDS, parse_duration


def judged(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a handler, checked and in their one form."""
    for name in options:
        if name not in _OPTIONS:
            raise AppError(f"unknown option {name}")
    return {name: _OPTIONS[name](name, value) for name, value in options.items()}


def _attempts(name: str, value: Any) -> int:
    return check_max_attempts(value)


def _seconds(name: str, value: Any) -> float | None:
    if value is None:
        return None
    try:
        seconds = parse_duration(value) if isinstance(value, str) else value
    except ValueError as error:
        raise AppError(f"{name}: {error}") from None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise AppError(f"{name}: {class_name(value)} is no number of seconds")
    if not 0 < seconds <= LONGEST_SECONDS:
        raise AppError(f"{name}: must be above 0 and at most 100 years")
    return float(seconds)


def _backoff(name: str, value: Any) -> Backoff | None:
    try:
        backoff = Backoff.parse(value) if isinstance(value, str) else value
    except ValueError as error:
        raise AppError(f"{name}: {error}") from None
    if backoff is not None and not isinstance(backoff, Backoff):
        raise AppError(f"{name}: {class_name(value)} is neither a Backoff nor text such as 1s:64s")
    return backoff


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise AppError(f"{name}: {class_name(value)} is neither True nor False")
    return value


def _exceptions(name: str, value: Any) -> tuple[type[BaseException], ...]:
    given = tuple(value) if isinstance(value, tuple | list | set | frozenset) else (value,)
    for each in given:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise AppError(f"{name}: {safe(repr(each), 60)} is no exception class")
    return given


_OPTIONS: dict[str, Callable[[str, Any], Any]] = {
    "max_attempts": _attempts,
    "timeout": _seconds,
    "backoff": _backoff,
    "retry_on": _exceptions,
    "discard_on": _exceptions,
    "group": _flag,
}
