"""`runner pause`: keep a queue or a type from being claimed."""

from datetime import datetime
from typing import Any

import click

from ..errors import UsageError
from ..operating.person import who
from ..text import safe
from . import output, problems
from .choosing import Until, Word
from .database import connect_wait, connection
from .settings import Settings


@click.command()
@click.argument("queue", metavar="[QUEUE]", required=False, type=Word())
@click.option("--type", "type_", type=Word(), help="This type, in every queue or in QUEUE.")
@click.option("--until", type=Until(), help="A time, or how long from now (default: resume).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@connect_wait()
@click.pass_obj
def pause(
    settings: Settings,
    /,
    queue: str | None,
    type_: str | None,
    until: datetime | float | None,
    as_json: bool,
    connect_wait: float,
) -> None:
    """Keep a queue or a type from being claimed; what runs goes on. Said again, the new end counts."""
    from ..store import operate

    if queue is None and type_ is None:
        raise UsageError("what? Give a QUEUE, or --type TYPE")
    when: dict[str, Any] = {"until" if isinstance(until, datetime) else "delay": until}
    with connection(settings, "pause", connect_wait) as conn:
        made = operate.pause(conn, queue, type_, **when, who=who())
    if made is None:
        raise UsageError(f"--until: {until} is over already")
    if as_json:
        output.write_json(made)
    else:
        end = made["paused_until"]
        end = "until it is resumed" if end == "infinity" else f"until {end}"
        problems.notice(f"{named(queue, type_)} is paused {end}", settings)


def named(queue: str | None, type_: str | None) -> str:
    """`queue mail`, `type send`, `type send in queue mail`."""
    pairs = (("type", type_), ("queue", queue))
    return " in ".join(f"{word} {safe(name, 255)}" for word, name in pairs if name is not None)
