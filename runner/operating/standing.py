"""What waits and will not be run as things are, and what to type about it. Pure."""

import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..text import safe

Record = dict[str, Any]


class Standstill(NamedTuple):
    """A sentence, and the command that ends what it tells of."""

    text: str
    command: str


def standstills(status: Record) -> Iterator[Standstill]:
    """Of the object of `status --json`: what is paused, served by nobody, or without a handler."""
    for pause in status["pauses"]:
        text = f"{named(pause['queue'], pause['type'])} is paused: {_waiting(pause['ready'])}"
        yield Standstill(text, resume(pause["queue"], pause["type"]))
    for one in status["queues"]:
        if one["unserved"] and one["ready"] and not one["paused_until"]:
            text = f"{named(one['name'], None)} is served by nobody: {_waiting(one['ready'])}"
            yield Standstill(text, f"runner start --queue {shlex.quote(one['name'])}")
    for one in status["types"]:
        if one["unknown"] and not one["paused_until"]:
            text = f"{named(None, one['name'])} has no handler: {_waiting(one['unknown'])}"
            yield Standstill(text, "runner todo")


def named(queue: str | None, type_: str | None) -> str:
    """`queue mail`, `type send`, `type send in queue mail`."""
    pairs = (("type", type_), ("queue", queue))
    return " in ".join(f"{word} {safe(name, 255)}" for word, name in pairs if name is not None)


def resume(queue: str | None, type_: str | None) -> str:
    """What ends exactly this pause, as it is typed into a shell."""
    words = ["runner", "resume"]
    if queue is not None and not queue.startswith("-"):
        words.append(queue)
    if type_ is not None:
        words += ["--type", type_]
    if queue is not None and queue.startswith("-"):
        words += ["--", queue]  # else it would be taken for an option: --all, perhaps
    return shlex.join(words)


def _waiting(count: int) -> str:
    return f"{count:,} waiting"
