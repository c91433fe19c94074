"""`runner explain ID`: why a task is not running, or why it died."""

from dataclasses import replace

import click

from ..operating import explain as explaining
from . import output
from .choosing import TaskId
from .database import connect_wait, connection
from .settings import Settings
from .todo import app_types


@click.command()
@click.argument("task_id", metavar="ID", type=TaskId())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@connect_wait()
@click.pass_obj
def explain(settings: Settings, /, task_id: int, as_json: bool, connect_wait: float) -> None:
    """Say in one sentence why a task is not running, or why it died.

    As JSON: id, state, reason (a word or two for programs) and sentence. What `--priority` of a fleet
    makes of the order is not in the database: of classes it says what the tasks themselves say.
    """
    from ..store.facts import facts

    with connection(settings, "explain", connect_wait) as conn:
        found = facts(conn, task_id)
    if isinstance(found, explaining.Gone):
        state, told = None, explaining.explain_gone(found)
    else:
        if not found.staff.workers and (here := app_types(settings)) is not None:
            found = replace(found, known_here=found.type in here)
        state, told = found.state, explaining.explain(found)
    if as_json:
        said = {"reason": told.reason, "sentence": told.sentence}
        output.write_json({"id": task_id, "state": state} | said)
    else:
        output.write(f"{told.sentence}\n")
