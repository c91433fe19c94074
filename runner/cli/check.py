"""`runner check`: would a start work?"""

import click

from .. import app
from ..registry import Registry
from . import output, problems
from .database import connect_wait, connection
from .fleet_options import fleet_config, fleet_options, warn_of_connections
from .settings import Settings


@click.command()
@fleet_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a handler.")
@connect_wait()
@click.pass_obj
def check(settings: Settings, /, as_json: bool, connect_wait: float, **options: object) -> None:
    """Load the app, list its handlers, and look at options and database."""
    config = fleet_config(settings, "", dict(options), log_level="info")
    assert config.app is not None
    registry = app.load(config.app, config.app_dir)
    if not len(registry):
        problems.tell(f"runner: warning: app {config.app} registers no handlers", settings)
    _show(registry, as_json)
    with connection(settings, "check", connect_wait) as conn:
        warn_of_connections(conn, config, settings)
        version = conn.info.server_version // 10000
        problems.notice(f"database {conn.info.dbname}: PostgreSQL {version}, schema ok", settings)


def _show(registry: Registry, as_json: bool) -> None:
    rows = [
        {
            "type": handler.name,
            "max_attempts": handler.max_attempts,
            "timeout_seconds": handler.timeout,
            "place": handler.place,
        }
        for handler in sorted(registry, key=lambda one: one.name)
    ]
    if as_json:
        output.write_json_lines(rows)
    elif rows:
        output.write_rows(tuple(rows[0]), rows)
