"""`runner enqueue`: add a task."""

from datetime import datetime

import click

from ..errors import UsageError
from . import output, problems
from .database import connect_wait, connection
from .params import Duration, Moment
from .settings import Settings


@click.command()
@click.argument("type_", metavar="TYPE")
@click.argument("params", metavar="[JSON]", default="{}")
@click.option("--queue", default="default", show_default=True)
@click.option("--priority", type=int, default=5, show_default=True, help="0 first, 9 last.")
@click.option("--in", "delay", type=Duration(), help="Not before so long from now.")
@click.option("--at", type=Moment(), help="Not before this time, with its zone.")
@click.option("--key", help="Nothing is added where this key has a task or was completed.")
@click.option("--unique", is_flag=True, help="Nothing is added where the same waits already.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@connect_wait()
@click.pass_obj
def enqueue(
    settings: Settings,
    /,
    type_: str,
    params: str,
    queue: str,
    priority: int,
    delay: float | None,
    at: datetime | None,
    key: str | None,
    unique: bool,
    as_json: bool,
    connect_wait: float,
) -> None:
    """Add a task of TYPE with params JSON, and print its id."""
    from ..enqueueing import enqueue as add
    from ..payload import loads_strict
    from ..store import overview

    if delay is not None and at is not None:
        raise UsageError("--in and --at exclude each other")
    value = loads_strict(params)
    with connection(settings, "enqueue", connect_wait) as conn:
        task_id = add(
            conn, type_, value, queue=queue, priority=priority, run_at=at, delay=delay,
            key=key, unique=unique,
        )  # fmt: skip
        done = task_id is None and overview.is_completed(conn, key)
    if task_id is None:
        problems.notice("already done" if done else "already queued", settings)
    if as_json:
        output.write_json({"id": task_id})
    elif task_id is not None:
        output.write(f"{task_id}\n")
