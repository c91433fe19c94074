"""The fields of a task other than its params: names, numbers and times. All raise `InvalidTask`."""

from datetime import UTC, datetime, timedelta

from .errors import InvalidTask
from .text import class_name
from .units import LONGEST_SECONDS

QUEUE_BYTES = 63
TYPE_BYTES = 255
KEY_BYTES = 512
PRIORITIES = range(10)
MAX_ATTEMPTS = 10_000
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9001, 1, 1, tzinfo=UTC)


def check_queue(name: str) -> str:
    """`name`, if a queue may be called so: up to 63 bytes, without = and comma."""
    _check_name("queue", name, QUEUE_BYTES)
    if name != name.strip():
        raise InvalidTask("queue: begins or ends with a blank")
    if "=" in name or "," in name:
        raise InvalidTask("queue: '=' and ',' cannot be in a name")
    return name


def check_type(name: str) -> str:
    """`name`, if a task type may be called so: up to 255 bytes."""
    return _check_name("type", name, TYPE_BYTES)


def check_key(key: str) -> str:
    """`key`, if it will do as an idempotency key: up to 512 bytes."""
    return _check_name("key", key, KEY_BYTES)


def check_priority(priority: int) -> int:
    """`priority`, if it is an integer from 0 (first) to 9 (last)."""
    if _check_integer("priority", priority) not in PRIORITIES:
        raise InvalidTask("priority: must be from 0 (first) to 9 (last)")
    return int(priority)


def check_max_attempts(attempts: int) -> int:
    """`attempts`, if it is an integer from 1 to 10,000."""
    if not 1 <= _check_integer("max_attempts", attempts) <= MAX_ATTEMPTS:
        raise InvalidTask(f"max_attempts: must be from 1 to {MAX_ATTEMPTS}")
    return int(attempts)


def check_delay(delay: float | timedelta) -> float:
    """`delay` in seconds, if it is from 0 to a hundred years."""
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidTask(f"delay: {class_name(seconds)} is no number of seconds")
    if not 0 <= seconds <= LONGEST_SECONDS:
        raise InvalidTask("delay: must be from 0 seconds to 100 years")
    return float(seconds)


def check_run_at(moment: datetime) -> datetime:
    """`moment`, if it says its time zone and lies between 1970 and the year 9000."""
    if not isinstance(moment, datetime):
        raise InvalidTask(f"run_at: {class_name(moment)} is no datetime")
    if moment.utcoffset() is None:
        raise InvalidTask(
            "run_at: without a time zone (write 2030-01-31T12:00:00+00:00, or an aware datetime)"
        )
    try:
        if EARLIEST <= moment < LATEST:
            return moment
    except OverflowError:  # an offset leads out of the calendar
        pass
    raise InvalidTask("run_at: must be between 1970 and the year 9000")


def _check_name(field: str, name: str, most: int) -> str:
    if not isinstance(name, str):
        raise InvalidTask(f"{field}: {class_name(name)} is no text")
    if not name.strip():
        raise InvalidTask(f"{field}: empty")
    if not name.isprintable():
        raise InvalidTask(f"{field}: holds a character that does not print")
    if len(name.encode()) > most:
        raise InvalidTask(f"{field}: longer than {most} bytes in UTF-8")
    return name


def _check_integer(field: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidTask(f"{field}: {class_name(value)} is no integer")
    return value
