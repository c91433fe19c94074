"""`runner dead …`: tasks that nobody tries again, to be looked at, tried again or dropped."""

from collections.abc import Sequence
from typing import Any

import click

from ..errors import UsageError
from ..operating.person import who
from . import output, records
from .changing import Deed, Doing
from .choosing import chosen, filters, how_many, ids_argument, limit_option
from .database import connect_wait, connection
from .settings import Settings

DEAD = ("dead",)


@click.group()
def dead() -> None:
    """Dead tasks: list, show, requeue, discard."""


def _looking(function: Any) -> Any:
    for option in (
        click.pass_obj,
        connect_wait(),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line."),
        limit_option,
        click.option("--all", "everything", is_flag=True, help="Whatever is dead, however much."),
        filters,
        ids_argument(),
    ):
        function = option(function)
    return function


def _changing(function: Any) -> Any:
    for option in (
        click.pass_obj,
        connect_wait(),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
        click.option("--yes", is_flag=True, help="Do not ask before more than one is changed."),
        click.option("--dry-run", is_flag=True, help="Only show what would be changed."),
        click.option("--all", "everything", is_flag=True, help="Whatever is dead."),
        filters,
        ids_argument(),
    ):
        function = option(function)
    return function


@dead.command("list")
@_looking
def list_(
    settings: Settings,
    /,
    ids: tuple[int, ...],
    limit: int | None,
    everything: bool,
    as_json: bool,
    connect_wait: float,
    **options: Any,
) -> None:
    """Show dead tasks, one a line, in the order of their ids."""
    from ..store import tasks

    wanted = chosen(options, ids=ids, states=DEAD)
    most = 0 if everything else how_many(limit)
    with connection(settings, "dead", connect_wait) as conn:
        found = tasks.tasks(conn, wanted, limit=most + 1 if most else None)
        records.write_tasks(found, most, as_json, settings)


@dead.command()
@_looking
def show(
    settings: Settings,
    /,
    ids: tuple[int, ...],
    limit: int | None,
    everything: bool,
    as_json: bool,
    connect_wait: float,
    **options: Any,
) -> None:
    """Show dead tasks whole, params and error included."""
    from ..store import tasks

    wanted = chosen(options, ids=ids, states=DEAD)
    most = 0 if everything else how_many(limit)
    with connection(settings, "dead", connect_wait) as conn:
        found = tasks.tasks(conn, wanted, limit=most or None, whole=True)
        for number, record in enumerate(found):
            if number and not as_json:
                output.write("\n")
            records.write_whole(record, as_json)


@dead.command()
@_changing
def requeue(settings: Settings, /, **options: Any) -> None:
    """Make dead tasks ready again, with all their attempts; of a scheduled one by its ID: now."""
    from ..store import operate

    named = ("dead", "scheduled") if options["ids"] else DEAD
    _change(settings, options, Deed("requeue", "requeued", named, operate.requeue))


@dead.command()
@_changing
def discard(settings: Settings, /, **options: Any) -> None:
    """Delete dead tasks; who did so and when is kept, and `runner show` tells."""
    from ..store import operate

    change = operate.remover("discarded", who())
    _change(settings, options, Deed("discard", "discarded", DEAD, change))


def _change(settings: Settings, options: dict[str, Any], deed: Deed) -> None:
    ids: Sequence[int] = tuple(dict.fromkeys(options["ids"]))
    narrowed = any(options[name] for name in ("types", "queues", "error"))
    narrowed = narrowed or options["older_than"] is not None
    if ids and (narrowed or options["everything"]):
        raise UsageError("give IDs, or filters, not both")
    if not ids and not narrowed and not options["everything"]:
        raise UsageError(f"which ones? Give IDs, filters, or --all to {deed.verb} all")
    with connection(settings, "dead", options["connect_wait"]) as conn:
        doing = Doing(conn, settings, deed, options["as_json"])
        wanted = chosen(options, ids=ids, states=deed.states)
        if options["dry_run"]:
            doing.preview(wanted)
        elif ids:
            doing.to_named(ids, options["yes"])
        else:
            doing.to_all(wanted, options["yes"])
