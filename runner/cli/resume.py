"""`runner resume`: what was paused is claimed again, at once."""

import click

from ..errors import NothingChanged, UsageError
from ..operating.standing import named
from . import output, problems
from .choosing import Word
from .database import connect_wait, connection
from .settings import Settings


@click.command()
@click.argument("queue", metavar="[QUEUE]", required=False, type=Word())
@click.option("--type", "type_", type=Word(), help="This type, as it was paused.")
@click.option("--all", "everything", is_flag=True, help="Whatever is paused.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@connect_wait()
@click.pass_obj
def resume(
    settings: Settings,
    /,
    queue: str | None,
    type_: str | None,
    everything: bool,
    as_json: bool,
    connect_wait: float,
) -> None:
    """End a pause, and wake the idle workers."""
    from ..store import operate

    if everything == (queue is not None or type_ is not None):
        raise UsageError("what? Give a QUEUE, or --type TYPE, or --all alone")
    with connection(settings, "resume", connect_wait) as conn:
        ended = operate.resume_all(conn) if everything else operate.resume(conn, queue, type_)
    if not ended:
        what = "nothing is paused" if everything else f"{named(queue, type_)} is not paused"
        raise NothingChanged(f"{what}: nothing changed")
    for one in ended:
        if as_json:
            output.write_json(one)
        else:
            problems.notice(f"{named(one['queue'], one['type'])} is resumed", settings)
