"""`runner workers`: one row a worker."""

import sys

import click

from ..operating import hosts
from ..terminal import is_terminal
from . import output, problems
from .database import connect_wait, connection
from .settings import Settings

COLUMNS = (
    *("host", "pid", "slot", "runner", "state", "task", "type", "attempt"),
    *("run_seconds", "lease_seconds", "rss", "done", "failed", "silent_seconds"),
)


@click.command()
@click.option("--by-host", is_flag=True, help="One row a host: lost when no lease was renewed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@connect_wait()
@click.pass_obj
def workers(settings: Settings, /, by_host: bool, as_json: bool, connect_wait: float) -> None:
    """Show every worker with what it does."""
    from ..store import overview

    with connection(settings, "workers", connect_wait) as conn:
        found = overview.workers(conn)
    columns: tuple[str, ...] = COLUMNS
    for sentence in hosts.notices(found):
        problems.notice(sentence, settings)
    if by_host:
        found, columns = hosts.by_host(found), hosts.COLUMNS
    if as_json:
        output.write_json_lines(found)
    elif is_terminal(sys.stdout):
        from . import tables

        tables.write(tables.hosts() if by_host else tables.workers(), found)
    else:
        output.write_rows(columns, found)
