"""The kinds of values that options take; what is refused is told in one line."""

import math
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ..backoff import Backoff
from ..config import Queue
from ..errors import InvalidTask
from ..fields import check_priority, check_queue, check_run_at, check_type
from ..units import parse_duration, parse_size

MOST_PROCS = 1000
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
SHORTEST_POLL_SECONDS = 0.01


if TYPE_CHECKING:
    _Type = click.ParamType[Any]
else:
    _Type = click.ParamType  # before click 8.4 it takes no argument


class Kind(_Type):
    """Turns the ValueError of a parser into a usage error."""

    def parse(self, text: str) -> Any:
        """The value of a text; ValueError or InvalidTask with the reason."""
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """What click calls."""
        if not isinstance(value, str):
            return value  # a default
        try:
            return self.parse(value)
        except InvalidTask as error:  # it names the field, which the option does as well
            self.fail(str(error).partition(": ")[2], param, ctx)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Duration(Kind):
    """`30s`, `5m`: seconds, at least `least`."""

    name = "duration"

    def __init__(self, least: float = 0.0) -> None:
        self.least = least

    def parse(self, text: str) -> float:
        """Seconds."""
        seconds = parse_duration(text)
        if seconds < self.least:
            raise ValueError(f"{text} is too short: at least {self.least:g}s")
        return seconds


class Keep(Duration):
    """`90d`, or `forever`, which is no limit at all: None cannot be typed."""

    def parse(self, text: str) -> float:
        """Seconds; infinite for `forever`."""
        return float("inf") if text == "forever" else super().parse(text)


class Size(Kind):
    """`512MB`: bytes."""

    name = "size"

    def parse(self, text: str) -> int:
        """Bytes, at least one."""
        size = parse_size(text)
        if size < 1:
            raise ValueError("must be at least one byte")
        return size


class Count(Kind):
    """A whole number of things, from 1 to `most`."""

    name = "n"

    def __init__(self, most: int = 10**9) -> None:
        self.most = most

    def parse(self, text: str) -> int:
        """The number."""
        return whole_number(text, 1, self.most)


class Share(Kind):
    """A number from 0 to 1."""

    name = "share"

    def parse(self, text: str) -> float:
        """The number; NaN is none."""
        try:
            share = float(text)
        except ValueError:
            share = math.nan
        if not 0 <= share <= 1:
            raise ValueError(f"{text!a} is no number from 0 to 1")
        return share


class Queues(Kind):
    """`NAME[=N]`, or several with commas between."""

    name = "name[=n]"

    def parse(self, text: str) -> list[Queue]:
        """The queues named."""
        return [self._one(part) for part in text.split(",")]

    @staticmethod
    def _one(text: str) -> Queue:
        name, has_count, count = text.partition("=")
        workers = whole_number(count, 1, MOST_PROCS) if has_count else None
        return Queue(check_queue(name), workers)


class Priorities(Kind):
    """`TYPE=N`."""

    name = "type=n"

    def parse(self, text: str) -> tuple[str, int]:
        """The type and its rank; a type may hold `=` itself."""
        name, _, rank = text.rpartition("=")
        if not name:
            raise ValueError(f"{text!a} is not TYPE=N")
        return check_type(name), check_priority(whole_number(rank, -(10**9), 10**9))


class Address(Kind):
    """`:9187`, `0.0.0.0:9187` or `[::]:9187`."""

    name = "address"

    def parse(self, text: str) -> tuple[str, int]:
        """Host and port; the host is the loopback where none is given."""
        host, colon, port = text.rpartition(":")
        if not colon:
            raise ValueError(f"{text!a} has no port: :9187, or HOST:9187")
        return host.strip("[]") or "127.0.0.1", whole_number(port, 0, 65535)


class Backoffs(Kind):
    """`FIRST[:CAP]`."""

    name = "first:cap"

    def parse(self, text: str) -> Backoff:
        """The delays: the first is above zero, the cap is not below it."""
        return Backoff.parse(text)


class Moment(Kind):
    """ISO 8601 with a time zone."""

    name = "time"

    def parse(self, text: str) -> datetime:
        """The time."""
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                f"{text!a} is no time: write it as 2030-01-31T12:00:00+00:00"
            ) from None
        return check_run_at(moment)


def whole_number(text: str, least: int, most: int) -> int:
    """The integer of a text, within bounds; ValueError with the reason."""
    digits = text.strip()
    if not _WHOLE.fullmatch(digits):
        raise ValueError(f"{text[:40]!a} is no whole number")
    number = int(digits)
    if number < least:
        raise ValueError(f"{number} is too few: at least {least}")
    if number > most:
        raise ValueError(f"{number} is too many: at most {most}")
    return number
