"""Which tasks a verb means: ids or filters."""

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..terminal import is_terminal
from ..units import parse_duration
from .params import Duration, Kind, Moment, whole_number

if TYPE_CHECKING:
    from ..store.tasks import Filter

_F = TypeVar("_F", bound=Callable[..., Any])
LARGEST_ID = 2**63 - 1
USUAL_LIMIT = 1000


class TaskId(Kind):
    """The id of a task."""

    name = "id"

    def parse(self, text: str) -> int:
        """The number."""
        return whole_number(text, 1, LARGEST_ID)


class Limit(Kind):
    """How many at most; 0: all."""

    name = "n"

    def parse(self, text: str) -> int:
        """The number."""
        return whole_number(text, 0, LARGEST_ID)


class Word(Kind):
    """Any text; a name that only SQL can have given is to be found, too."""

    name = "text"

    def parse(self, text: str) -> str:
        """The text."""
        if not text:
            raise ValueError("empty")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("is no UTF-8") from None
        return text


class Until(Kind):
    """A time, or how long from now (by the database's clock)."""

    name = "time|duration"

    def parse(self, text: str) -> datetime | float:
        """The time, or seconds."""
        try:
            seconds = parse_duration(text)
        except ValueError:
            moment: datetime = Moment().parse(text)
            return moment
        if seconds <= 0:
            raise ValueError(f"{text} is no time to come")
        return seconds


def ids_argument(required: bool = False) -> Callable[[_F], _F]:
    """`ID…`"""
    return click.argument(
        "ids", metavar="ID…" if required else "[ID]…", nargs=-1, required=required, type=TaskId()
    )


def filters(function: _F) -> _F:
    """The options that narrow a choice down."""
    for option in reversed(
        (
            click.option("--type", "types", type=Word(), multiple=True, help="Only this type."),
            click.option("--queue", "queues", type=Word(), multiple=True, help="Only this queue."),
            click.option(
                "--older-than", type=Duration(), help="Added, or dead, for longer than this."
            ),
            click.option(
                "--error", type=Word(), help="Only with this text in the error or the cause."
            ),
        )
    ):
        function = option(function)
    return function


def limit_option(function: _F) -> _F:
    """How many are shown."""
    return click.option(
        "--limit",
        type=Limit(),
        help=f"Show at most so many; 0: all (default: {USUAL_LIMIT} on a terminal, else all).",
    )(function)


def how_many(limit: int | None) -> int:
    """The limit that was given, or the usual one: a person reads few, a program counts on all."""
    if limit is not None:
        return limit
    return USUAL_LIMIT if is_terminal(sys.stdout) else 0


def chosen(
    options: dict[str, Any], *, ids: Sequence[int] = (), states: Sequence[str] = (), after: int = 0
) -> "Filter":
    """The filter of these options."""
    from ..store.tasks import Filter

    return Filter(
        ids=list(dict.fromkeys(ids)) or None,
        states=list(states) or None,
        queues=list(options["queues"]) or None,
        types=list(options["types"]) or None,
        older_than=options["older_than"],
        error=options["error"],
        after=after,
    )
