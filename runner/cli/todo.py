"""`runner todo`: one board of what people must fix."""

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import click

from .. import app
from ..errors import ConfigError, RunnerError
from ..operating.scaffold import SAMPLE_CHARACTERS, Missing, scaffold
from ..terminal import is_terminal
from ..text import safe
from . import output, problems, records
from .choosing import Limit
from .database import connect_wait, connection
from .settings import Settings

if TYPE_CHECKING:
    from ..store.tasks import Connection, Record

TITLES = {"unknown": "not implemented", "failing": "failing now", "dead": "dead"}
COLUMNS = {
    "unknown": ("type", "count", "first_seen", "sample"),
    "failing": (
        "type",
        "count",
        "error",
        "cause",
        "next_try",
        "first_seen",
        "sample",
        "interrupted",
    ),
    "dead": ("type", "count", "error", "cause", "last_failed_at", "first_seen", "sample"),
}
MOMENTS = ("first_seen", "next_try", "last_failed_at")


@click.command()
@click.option("--scaffold", "as_stubs", is_flag=True, help="Print handlers for what has none.")
@click.option(
    "--limit",
    type=Limit(),
    default="50",
    show_default=True,
    help="Show at most so many errors of each kind; 0: all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@connect_wait()
@click.pass_obj
def todo(
    settings: Settings, /, as_stubs: bool, limit: int, as_json: bool, connect_wait: float
) -> None:
    """Show what people must fix: types without a handler, what fails now, what is dead.

    Implemented is what a living worker, or the app that loads here, has a handler for. Among what fails
    is what was interrupted, as by a lease that was lost: no attempt is spent on that.

    As JSON, one object a line. Each has `kind` (unknown, failing, dead), `type`, `count`, `first_seen`
    (when the oldest task was added), `sample` (its params) and `task` (its id). One of kind failing has
    `cause`, `error` (its first line), `next_try` and `interrupted` (how often one was, at most) as well,
    one of kind dead `cause`, `error` and `last_failed_at`.
    """
    with connection(settings, "todo", connect_wait) as conn:
        if as_stubs:
            _write_stubs(conn, settings)
            return
        board = _board(conn, settings, limit or None)
    if as_json:
        records.write_json_lines(board)
    else:
        _show(board)


def _board(conn: "Connection", settings: Settings, limit: int | None) -> "list[Record]":
    from ..store import todo as store

    found = {
        "unknown": _unknown(conn, settings),
        "failing": store.failing(conn, limit),
        "dead": store.dead(conn, limit),
    }
    return [{"kind": kind} | one for kind, rows in found.items() for one in rows]


def _unknown(conn: "Connection", settings: Settings) -> "list[Record]":
    from ..store import operate
    from ..store import todo as store

    here = app_types(settings)
    if here is None and not operate.alive(conn).workers:
        problems.notice(
            "no worker is alive and no app loads: what is not implemented cannot be told", settings
        )
        return []
    return store.unknown(conn, store.living_types(conn) | (here or set()))


def app_types(settings: Settings) -> set[str] | None:
    """The types of the app that loads here; None where none does."""
    try:
        name = app.find(settings.app, settings.app_dir)
    except ConfigError:
        return None
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what an app prints is no data of ours
            return set(app.load(name, settings.app_dir).types)
    except RunnerError as error:
        problems.notice(f"warning: {error}", settings)
        return None


def _show(board: "list[Record]") -> None:
    rows = [one | {"sample": safe(one["sample"] or "", SAMPLE_CHARACTERS)} for one in board]
    if not is_terminal(sys.stdout):
        names = dict.fromkeys(name for columns in COLUMNS.values() for name in columns)
        output.write_rows(("kind", *names), rows)
        return
    from . import tables

    now = tables.now()
    for kind, title in TITLES.items():
        some = [
            one | {name: tables.age(one[name], now) for name in MOMENTS if one.get(name)}
            for one in rows
            if one["kind"] == kind
        ]
        if some:
            output.write_rows(COLUMNS[kind], some, title=title)
    if not rows:
        output.write("nothing to do\n")


def _write_stubs(conn: "Connection", settings: Settings) -> None:
    from ..store import todo as store

    missing = [_missing(one, store.fields(conn, one["type"])) for one in _unknown(conn, settings)]
    if missing:
        output.write(scaffold(missing))
    else:
        problems.notice("every type that waits has a handler", settings)


def _missing(one: "Record", fields: Any) -> Missing:
    return Missing(one["type"], one["count"], one["first_seen"], one["sample"] or "", fields)
