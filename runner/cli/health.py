"""`runner health`: an exit code for probes."""

import socket

import click

from ..errors import NothingChanged
from . import asking, output
from .choosing import Limit
from .database import connect_wait, connection
from .settings import Settings


class TooFew(NothingChanged):
    """Fewer workers live than should."""


@click.command()
@click.option(
    "--min-workers", type=Limit(), default="1", show_default=True, help="So many must be alive."
)
@click.option("--here", is_flag=True, help="Count only workers on this host.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@connect_wait()
@click.pass_obj
def health(
    settings: Settings, /, min_workers: int, here: bool, as_json: bool, connect_wait: float
) -> None:
    """Exit 0 when database, schema and workers are there.

    1: too few workers are alive; 69: no database; 78: no schema, or one of another version.
    """
    from ..store import operate, schema

    with connection(settings, "health", connect_wait) as conn:
        alive = operate.alive(conn, socket.gethostname() if here else None)
        seen = {"database": conn.info.dbname, "version": schema.version(conn), **alive._asdict()}
    ok = alive.workers >= min_workers
    if as_json:
        output.write_json({"ok": ok, **seen})
    if not ok:
        raise TooFew(f"{asking.workers_are(alive.workers)} alive, fewer than {min_workers}")
    if not as_json:
        output.write(f"ok: {asking.workers_are(alive.workers)} alive\n")
