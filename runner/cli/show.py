"""`runner show ID`: one task whole, or what became of it."""

from typing import TYPE_CHECKING

import click

from ..errors import NothingChanged
from ..operating.explain import Gone, explain_gone
from ..operating.notes import notes
from . import output, records
from .choosing import TaskId
from .database import connect_wait, connection
from .settings import Settings

if TYPE_CHECKING:
    from ..store.tasks import Fate

KEYS = (*records.COLUMNS, "params", "fence", "claimed_at", "lease_until", "post_mortem", "released")


@click.command()
@click.argument("task_id", metavar="ID", type=TaskId())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@connect_wait()
@click.pass_obj
def show(settings: Settings, /, task_id: int, as_json: bool, connect_wait: float) -> None:
    """Show everything about a task.

    Of a task that is gone: who removed it, or that it is done, or that its transaction was rolled
    back. As JSON its fields are null then, and `note` says so. Exit code 1: there never was such an id.

    Of a task that is there `note` says how often it was interrupted, and whether its `last_error` is of
    an attempt before the one that `cause` tells of, as after a requeue.
    """
    from ..store import tasks

    with connection(settings, "show", connect_wait) as conn:
        chosen = tasks.Filter(ids=[task_id])
        found = next(tasks.tasks(conn, chosen, limit=1, whole=True), None)
        fate = None if found is not None else tasks.fate(conn, task_id)
    if fate is not None:
        _tell(task_id, fate, as_json)
    elif found is not None:
        records.write_whole(found | {"note": "; ".join(notes(found)) or None}, as_json)


def _tell(task_id: int, fate: "Fate", as_json: bool) -> None:
    issued = fate.issued(task_id)
    note = explain_gone(Gone(task_id, issued, fate.how, fate.who, fate.at)).sentence
    if not issued:
        raise NothingChanged(note)
    if as_json:
        removed = {"removed": fate.how, "who": fate.who, "at": fate.at, "note": note}
        output.write_json(dict.fromkeys(KEYS) | {"id": task_id} | removed)
    else:
        output.write(f"{note}\n")
