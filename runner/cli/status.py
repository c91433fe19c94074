"""`runner status`: what waits, what runs, what is dead."""

import sys
from collections.abc import Iterator
from typing import Any

import click

from ..errors import NothingChanged, UsageError
from ..operating.board import STATES
from ..operating.standing import standstills
from ..terminal import is_terminal
from ..units import parse_duration
from . import output, problems
from .database import connect_wait, connection, database
from .params import Kind, whole_number
from .settings import Settings
from .todo import app_types

RATES = ("done_per_second", "failed_per_second", "p50_seconds", "p95_seconds")
COLUMNS = ("name", *STATES, "oldest_ready_seconds", "paused_until", *RATES)
MOST_TOLD = 8
BOUNDS = {
    "max-oldest": "oldest_ready_seconds",
    "max-ready": "ready",
    "max-scheduled": "scheduled",
    "max-running": "running",
    "max-dead": "dead",
    "max-unknown": "unknown",
    "max-expired": "leases_expired",
}


class BoundBroken(NothingChanged):
    """A bound of --check is broken."""


class Bounds(Kind):
    """`max-oldest=5m,max-dead=0`."""

    name = "bounds"

    def parse(self, text: str) -> dict[str, float]:
        """The bound by its name."""
        return dict(self._one(part.strip()) for part in text.split(","))

    @staticmethod
    def _one(text: str) -> tuple[str, float]:
        name, _, bound = text.partition("=")
        if name not in BOUNDS:
            raise ValueError(f"{name!a} is no bound: there are {', '.join(BOUNDS)}")
        if name == "max-oldest":
            return name, parse_duration(bound)
        return name, whole_number(bound, 0, 10**15)


@click.command()
@click.option("--check", "bounds", type=Bounds(), help="Exit 1 beyond max-oldest=5m,max-dead=0 …")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--watch", "live", is_flag=True, help="The live view; lines where no terminal can show it."
)
@click.option("--svg", metavar="FILE", help="Write the view as a picture.")
@connect_wait()
@click.pass_obj
def status(
    settings: Settings,
    /,
    bounds: dict[str, float] | None,
    as_json: bool,
    live: bool,
    svg: str | None,
    connect_wait: float,
) -> None:
    """Count tasks by queue and type; on a terminal and as JSON the workers, too.

    Unknown are ready tasks of a type that neither a living worker nor the app that loads here has a
    handler for. Rates are per second, over the last minute.
    """
    if sum((live, svg is not None, as_json, bounds is not None)) > 1 and (live or svg is not None):
        raise UsageError("--watch and --svg go with nothing else")
    if live or svg is not None:
        _view(settings, svg, connect_wait)
        return
    from ..store.looking import look

    with connection(settings, "status", connect_wait) as conn:
        seen = look(conn, here=lambda: app_types(settings))
    if as_json:
        output.write_json(seen)
    elif bounds is None:
        _show(seen)
        for told in _notices(seen):
            problems.notice(told, settings)
    if broken := _broken(seen, bounds or {}):
        raise BoundBroken("; ".join(broken))


def _view(settings: Settings, svg: str | None, wait: float) -> None:
    """The view, live or as a picture; no connection of ours stays open beside it."""
    from ..store import schema
    from ..store.connect import connected
    from . import watch

    with database(settings, wait) as url:
        with connected(url, "status", wait) as conn:
            schema.check(conn)
        if svg is None:
            watch.watch(url)
        else:
            watch.picture(url, svg)


def _broken(seen: dict[str, Any], bounds: dict[str, float]) -> list[str]:
    """What lies beyond its bound, as a sentence each."""
    return [
        f"{name.removeprefix('max-')} is {found:g}, more than {bound:g}"
        for name, bound in bounds.items()
        if (found := seen[BOUNDS[name]] or 0) > bound
    ]


def _notices(seen: dict[str, Any]) -> Iterator[str]:
    """What waits in vain, and the command that helps."""
    if seen["ready"] and not seen["leases_active"]:
        yield f"no worker is alive: {seen['ready']:,} waiting: runner start"
    still = list(standstills(seen))
    for one in still[:MOST_TOLD]:
        yield f"{one.text}: {one.command}"
    if len(still) > MOST_TOLD:
        yield f"and {len(still) - MOST_TOLD} more such queues or types"


def _show(seen: dict[str, Any]) -> None:
    if is_terminal(sys.stdout):
        from . import tables

        now = tables.now()
        tables.write(
            tables.counts("database", now, tables.RATES), [{"name": seen["database"], **seen}]
        )
        tables.write(tables.counts("queue", now), seen["queues"], "queues")
        tables.write(tables.counts("type", now, tables.DURATIONS), seen["types"], "types")
        tables.write(tables.hosts(), seen["hosts"], "hosts")
        tables.write(tables.workers(), seen["workers"], "workers")
        return
    rows = [{"kind": "total", "name": seen["database"], **seen}]
    rows += [{"kind": "queue", **one} for one in seen["queues"]]
    rows += [{"kind": "type", **one} for one in seen["types"]]
    output.write_rows(("kind", *COLUMNS), rows)
