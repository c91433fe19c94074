"""`runner migrate`: bring an older schema up to this program."""

from collections.abc import Sequence

import click

from . import asking, output, problems
from .database import connect_wait, connection
from .settings import Settings


@click.command()
@click.option("--sql", "as_sql", is_flag=True, help="Print what it would run, for psql.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@connect_wait()
@click.pass_obj
def migrate(
    settings: Settings, /, as_sql: bool, dry_run: bool, as_json: bool, connect_wait: float
) -> None:
    """Upgrade the schema, one version at a time, each in a transaction; nothing where it is up to date.

    Stop the fleets of the older program first: they were made for the older schema.
    """
    from ..store import migrations, operate, schema

    with connection(settings, "migrate", connect_wait, any_schema=True) as conn:
        steps = migrations.pending(conn)
        if steps and (alive := operate.alive(conn).workers):
            warning = f"{asking.workers_are(alive)} alive, of an older program"
            problems.notice(f"warning: {warning}", settings)
        if as_sql:
            output.write(migrations.script(steps))
            return
        if not dry_run:
            steps = migrations.migrate(conn)
            schema.check(conn)
        version = schema.version(conn)
    names = [step.name for step in steps]
    if as_json:
        output.write_json({"version": version, "pending" if dry_run else "applied": names})
    else:
        _tell(names, version, dry_run, settings)


def _tell(names: Sequence[str], version: int | None, dry_run: bool, settings: Settings) -> None:
    for name in names:
        problems.notice(f"{'would apply' if dry_run else 'applied'} {name}", settings)
    if not names:
        problems.notice(f"the schema is version {version}: nothing to do", settings)
