"""`runner start`: the fleet."""

from typing import TYPE_CHECKING, Any

import click

from ..errors import RunnerError
from . import problems
from .database import connect_wait, database
from .fleet_options import fleet_config, fleet_options, preload, warn_of_connections
from .settings import Settings
from .watch import terminal_for_view

if TYPE_CHECKING:
    from ..store.connect import Connection


@click.command()
@fleet_options
@click.option(
    "--console/--no-console",
    default=None,
    help="The live view (default: on a terminal), or log lines only.",
)
@connect_wait("60s")
@click.pass_obj
def start(settings: Settings, /, console: bool | None, connect_wait: float, **options: Any) -> int:
    """Run tasks with a fleet of workers until stopped.

    A TERM or INT lets running tasks finish within --grace and gives the others back; a second one does
    so at once. HUP brings new code, worker by worker. Exit codes: 0 stopped; 2 usage; 69 no database;
    70 workers keep dying at start; 78 app, schema or URL; 130, 143 forced.
    """
    with database(settings, connect_wait) as url:
        config = fleet_config(settings, url, options, log_level="info")
        from .. import fleet
        from ..store import schema
        from ..store.connect import ask

        def look(conn: "Connection") -> None:
            schema.check(conn)
            warn_of_connections(conn, config, settings)

        def tell_waiting(failure: RunnerError, left: float) -> None:
            problems.tell(f"runner: waiting {left:.0f} s more: {failure}", settings)

        ask(url, "start", connect_wait, look, waiting=tell_waiting)
        preload(config, settings)
        report = fleet.start(
            config, terminal=terminal_for_view(console), connect_wait_seconds=connect_wait
        )
        return report.exit_code
