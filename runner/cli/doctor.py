"""`runner doctor`: does what is promised hold on this database, and will it?"""

import sys

import click

from ..config import HELPERS, available_cpus
from ..operating.diagnosis import Finding, failed
from ..terminal import is_terminal
from ..text import safe
from . import output
from .database import connect_wait, connection
from .params import MOST_PROCS, Count
from .settings import Settings

COLUMNS = ("result", "check", "found", "advice")


@click.command()
@click.option(
    "--procs", type=Count(MOST_PROCS), help="Count on a fleet of so many more (default: the CPUs)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a check.")
@connect_wait()
@click.pass_obj
def doctor(settings: Settings, /, procs: int | None, as_json: bool, connect_wait: float) -> int:
    """Check schema, invariants, leases and surroundings of a live database.

    One line a check: ok, warn (look at it) or fail (something promised does not hold), with what to do
    about it. Exit code 1 when any check failed. Reads only.
    """
    from ..store.doctor import Plan, examine

    with connection(settings, "doctor", connect_wait) as conn:
        found = list(examine(conn, Plan(procs or available_cpus(), HELPERS)))
    if as_json:
        output.write_json_lines(one._asdict() for one in found)
    elif is_terminal(sys.stdout):
        output.write("".join(_line(one) for one in found))
    else:
        output.write_rows(COLUMNS, [one._asdict() for one in found])
    return int(failed(found))


def _line(one: Finding) -> str:
    advice = f"\n{'':18}do: {safe(one.advice)}" if one.advice else ""
    return f"{one.result:<4}  {one.check:<12}{safe(one.found)}{advice}\n"
