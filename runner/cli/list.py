"""`runner list`: tasks, one a line."""

from typing import Any

import click

from . import records
from .choosing import TaskId, chosen, filters, how_many, ids_argument, limit_option
from .database import connect_wait, connection
from .settings import Settings

STATES = ("scheduled", "ready", "running", "dead")


@click.command()
@ids_argument()
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only these.")
@filters
@click.option("--after", type=TaskId(), default="1", help="Only ids from this one on.")
@limit_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@connect_wait()
@click.pass_obj
def list(
    settings: Settings,
    /,
    ids: tuple[int, ...],
    states: tuple[str, ...],
    after: int,
    limit: int | None,
    as_json: bool,
    connect_wait: float,
    **options: Any,
) -> None:
    """Show tasks in the order of their ids."""
    from ..store import tasks

    wanted = chosen(options, ids=ids, states=states, after=after - 1)
    most = how_many(limit)
    with connection(settings, "list", connect_wait) as conn:
        found = tasks.tasks(conn, wanted, limit=most + 1 if most else None)
        records.write_tasks(found, most, as_json, settings)
