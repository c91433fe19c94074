"""`runner drain`: run what there is, then exit."""

import sys
from typing import TYPE_CHECKING, Any

import click

from ..config import Drain, FleetConfig
from ..terminal import is_terminal
from . import output, problems
from .database import connect_wait, database
from .fleet_options import fleet_config, fleet_options, preload
from .params import Count, Duration
from .settings import Settings
from .watch import terminal_for_view

if TYPE_CHECKING:
    from ..draining import Drained

KEYS = ("ok", "retried", "dead", "unknown", "released", "left", "scheduled", "seconds", "reason")


@click.command()
@fleet_options
@click.option("--max-time", type=Duration(), help="Stop after so long.")
@click.option("--max-tasks", type=Count(), help="Start at most so many handlers.")
@click.option("--snapshot", is_flag=True, help="Only tasks that exist at the start.")
@click.option(
    "--linger", type=Duration(), default="0s", help="Wait so long for more when all is done."
)
@click.option("--wait-retries", type=Duration(), help="Wait so long for tasks that failed.")
@click.option(
    "--overlap",
    type=click.Choice(["skip", "allow"]),
    default="skip",
    show_default=True,
    help="What to do while another drain of these queues runs.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["dead", "failure", "left", "never"]),
    default="dead",
    show_default=True,
    help="What makes the exit code 1.",
)
@click.option("--fail-if-busy", is_flag=True, help="Exit 75 where another drain runs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--dry-run", is_flag=True, help="Only tell what there is to do.")
@click.option("--console", is_flag=True, hidden=True, help="The live view, on a terminal.")
@connect_wait()
@click.pass_obj
def drain(
    settings: Settings,
    /,
    max_time: float | None,
    max_tasks: int | None,
    snapshot: bool,
    linger: float,
    wait_retries: float | None,
    **options: Any,
) -> int:
    """Run tasks until nothing is runnable, then exit.

    For cron: silent when all went well, and at once where another drain of these queues runs. Not
    waited for: what is due later, and types without a handler. Exit codes: 0 also with nothing to do or
    the time used up; 1 tasks died (see --fail-on); 69 no database; 75 busy (--fail-if-busy).
    """
    limits = Drain(max_time, max_tasks, wait_retries, linger, snapshot)
    with database(settings, options["connect_wait"]) as url:
        config = fleet_config(settings, url, options, log_level="error", drain=limits)
        if options["dry_run"]:
            return _tell_runnable(config, options)
        preload(config, settings)
        from .. import draining

        done = draining.drain(
            config,
            connect_wait_seconds=options["connect_wait"],
            overlap=options["overlap"],
            fail_if_busy=options["fail_if_busy"],
            terminal=terminal_for_view(True) if options["console"] else None,
        )
    _tell(done, settings, options["as_json"])
    return done.exit_code or int(_failed(done, options["fail_on"]))


def _tell(done: "Drained", settings: Settings, as_json: bool) -> None:
    """Dead tasks have been told by the log, one by one."""
    if done.unknown_types:
        names = ", ".join(done.unknown_types)
        problems.tell(f"runner: not implemented: {names} ({done.unknown} waiting)", settings)
    if as_json:
        output.write_json({key: getattr(done, key) for key in KEYS})
    elif settings.verbosity > 0 or (is_terminal(sys.stderr) and settings.verbosity == 0):
        problems.tell(_summary(done), settings)


def _summary(done: "Drained") -> str:
    if done.reason == "overlap":
        return "not drained: another drain of these queues runs"
    if done.left is None:
        return f"not drained: no database, ok={done.ok} retried={done.retried} dead={done.dead}"
    return (
        f"drained ok={done.ok} retried={done.retried} dead={done.dead} unknown={done.unknown}"
        f" left={done.left} in {done.seconds:.1f}s"
    )


def _failed(done: "Drained", fail_on: str) -> bool:
    """Each of the three counts what the one before counts, and more."""
    counted = {
        "never": 0,
        "dead": done.dead,
        "failure": done.dead + done.retried,
        "left": done.dead + done.retried + (done.left or 0),
    }
    return counted[fail_on] > 0


def _tell_runnable(config: FleetConfig, options: dict[str, Any]) -> int:
    from ..store import overview, schema
    from ..store.connect import connected

    queues = [queue.name for queue in config.queues] or None
    with connected(config.dsn, "drain", options["connect_wait"]) as conn:
        schema.check(conn)
        found = overview.due(conn, queues)
    if options["as_json"]:
        output.write_json_lines(found)
    elif found:
        output.write_rows(("queue", "type", "tasks"), found)
    return 0
