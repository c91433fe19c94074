"""`runner init`: the schema."""

import sys

import click

from ..terminal import is_terminal
from . import output, problems
from .database import connect_wait, connection
from .settings import Settings


@click.command()
@click.option("--sql", "as_sql", is_flag=True, help="Print the SQL, connect to nothing.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@connect_wait()
@click.pass_obj
def init(
    settings: Settings, /, as_sql: bool, dry_run: bool, as_json: bool, connect_wait: float
) -> None:
    """Create the schema; does nothing where it is."""
    from ..store import schema

    if as_sql:
        output.write(schema.text())
        return
    with connection(settings, "init", connect_wait, any_schema=True) as conn:
        missing = schema.version(conn) is None
        if missing and not dry_run:
            schema.install(conn)
        if not (missing and dry_run):
            schema.check(conn)
        name = conn.info.dbname
    if as_json:
        told = {"pending" if dry_run else "created": missing}
        output.write_json({"database": name, "version": schema.VERSION} | told)
    elif dry_run or is_terminal(sys.stderr) or settings.verbosity > 0:
        would = "would create" if dry_run else "created"
        what = f"{would} the schema runner" if missing else "the schema runner is there"
        problems.notice(f"{what} (database {name}, version {schema.VERSION})", settings)
