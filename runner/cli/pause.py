"""`runner pause`: keep a queue or a type from being claimed."""

import difflib
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..operating.person import who
from ..operating.standing import named
from ..text import safe
from . import output, problems
from .choosing import Until, Word
from .database import connect_wait, connection
from .settings import Settings

if TYPE_CHECKING:
    from ..store.tasks import Connection


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
        if made is not None and type_ is not None:
            _warn_of_unknown(conn, type_, settings)
    if made is None:
        raise UsageError(f"--until: {until} is over already")
    if as_json:
        output.write_json(made)
    else:
        end = made["paused_until"]
        end = "until it is resumed" if end == "infinity" else f"until {end}"
        problems.notice(f"{named(queue, type_)} is paused {end}", settings)


def _warn_of_unknown(conn: "Connection", type_: str, settings: Settings) -> None:
    """It may be a type of tomorrow; mostly it is mistyped. What has a handler needs no look at tasks."""
    from ..store import overview, todo
    from .todo import app_types

    known = todo.living_types(conn)
    if type_ not in known:
        known |= {one["type"] for one in overview.counts(conn)}
    if type_ not in known:
        known |= app_types(settings) or set()
    if type_ not in known:
        near = difflib.get_close_matches(type_, known, 1)
        meant = f" (did you mean {safe(near[0], 255)}?)" if near else ""
        problems.notice(f"no task and no handler of that type is known{meant}", settings)
