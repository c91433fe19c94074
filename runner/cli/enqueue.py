"""`runner enqueue`: add a task."""

import re
from datetime import datetime
from typing import Any, NamedTuple

import click

from ..errors import InvalidTask, UsageError
from . import output, problems
from .database import connect_wait, connection
from .params import Duration, Moment
from .settings import Settings


@click.command()
@click.argument("type_", metavar="TYPE", required=False)
@click.argument("params", metavar="[JSON]", required=False)
@click.option(
    "--from", "source", metavar="FILE", help="Add a task for each line of a file, or - for stdin."
)
@click.option("--lines", "field", metavar="FIELD", help="Lines are not JSON but params.FIELD.")
@click.option("--envelope", is_flag=True, help="Lines are objects: type, params, queue, key ...")
@click.option("--queue", default="default", show_default=True, help="Where it waits.")
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
    type_: str | None,
    params: str | None,
    source: str | None,
    field: str | None,
    envelope: bool,
    queue: str,
    priority: int,
    delay: float | None,
    at: datetime | None,
    key: str | None,
    unique: bool,
    as_json: bool,
    connect_wait: float,
) -> None:
    """Add a task of TYPE with params JSON, and print its id.

    With --from every line of a file is the params of a task; all are added, or, when one line is
    bad, none. Empty lines are skipped.
    """
    if delay is not None and at is not None:
        raise UsageError("--in and --at exclude each other")
    options = {
        "queue": queue, "priority": priority, "run_at": at, "delay": delay, "unique": unique
    }  # fmt: skip
    if source is not None:
        _refuse("--from and {} exclude each other", {"JSON": params, "--key": key})
        from .bulk import Source, enqueue_lines

        lines = Source(source, type_, field, envelope, options)
        enqueue_lines(settings, lines, as_json, connect_wait)
        return
    _refuse("{} needs --from", {"--lines": field, "--envelope": envelope or None})
    if type_ is None:
        raise UsageError("missing argument TYPE")
    task = Task(type_, "{}" if params is None else params, options | {"key": key})
    _enqueue_one(settings, task, as_json, connect_wait)


class Task(NamedTuple):
    """One task, as it was typed."""

    type: str
    params: str
    options: dict[str, Any]


def _refuse(why: str, given: dict[str, object]) -> None:
    """UsageError for the first of these that is there."""
    for name, value in given.items():
        if value is not None:
            raise UsageError(why.format(name))


def _right_form(params: str) -> str | None:
    """How `path=a.jpg` is written; without its value, which may be a secret."""
    found = re.match(r"([A-Za-z_][A-Za-z0-9_]{0,39})=", params)
    return f"""params are JSON: '{{"{found[1]}": "…"}}'""" if found else None


def _enqueue_one(settings: Settings, task: Task, as_json: bool, connect_wait: float) -> None:
    from ..enqueueing import enqueue as add
    from ..enqueueing.envelope import exactly
    from ..payload import loads_strict
    from ..store import overview

    try:
        params = loads_strict(task.params)
    except InvalidTask as error:
        error.hint = error.hint or _right_form(task.params)
        raise
    with connection(settings, "enqueue", connect_wait) as conn:
        task_id = add(conn, task.type, exactly(params), **task.options)
        done = task_id is None and overview.is_completed(conn, task.options["key"])
    if task_id is None:
        problems.notice("already done" if done else "already queued", settings)
    if as_json:
        output.write_json({"id": task_id})
    elif task_id is not None:
        output.write(f"{task_id}\n")
