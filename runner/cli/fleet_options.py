"""The options that `start` and `drain` share, and the config that they make."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .. import app, preloading
from ..backoff import Backoff
from ..config import Drain, FleetConfig, Queue, available_cpus
from ..errors import UsageError
from ..text import plural
from . import problems
from .params import (
    MOST_PROCS,
    SHORTEST_POLL_SECONDS,
    Address,
    Backoffs,
    Count,
    Duration,
    Keep,
    Kind,
    Priorities,
    Queues,
    Share,
    Size,
)
from .settings import Settings

if TYPE_CHECKING:
    from ..store.connect import Connection

_F = TypeVar("_F", bound=Callable[..., Any])
UNSAFE = frozenset({"no-timer", "no-kill"})


def _usual(name: str, kind: Kind, default: str, help: str) -> Callable[[_F], _F]:
    """An option with a default that its help shows."""
    return click.option(name, type=kind, default=default, show_default=True, help=help)


_OPTIONS = (
    click.option(
        "--procs",
        type=Count(MOST_PROCS),
        help="Workers (default: the CPUs we may use; more where handlers wait, as many as the database"
        " and what is behind them bear).",
    ),
    click.option(
        "--queue",
        "queues",
        type=Queues(),
        multiple=True,
        help="Serve only these queues, with N workers of its own; may be repeated.",
    ),
    click.option(
        "--priority",
        "priorities",
        type=Priorities(),
        multiple=True,
        help="Rank of a type in the place of its tasks' own: 0 first, 9 last.",
    ),
    _usual("--fair", Share(), "0.05", "Share of claims that ignore ranks."),
    _usual("--lease", Duration(), "30s", "How long a claim is good for."),
    click.option("--renew", type=Duration(), help="Time between renewals (default: lease/6)."),
    _usual("--backoff", Backoffs(), "1s:64s", "First delay and cap after a failure."),
    _usual("--grace", Duration(), "25s", "What running tasks get at a stop."),
    _usual("--timeout", Duration(), "1h", "Time limit of a task without its own; 0: none."),
    _usual(
        "--poll",
        Duration(SHORTEST_POLL_SECONDS),
        "1s",
        "How often to look for work without being told of any.",
    ),
    click.option("--no-listen", is_flag=True, help="Poll only, as behind some poolers."),
    click.option(
        "--max-tasks-per-child",
        type=Count(),
        help="Replace a worker after so many tasks, the next one ready first.",
    ),
    click.option(
        "--max-memory-per-child",
        type=Size(),
        help="Replace one that has grown larger, between tasks; as 512MB.",
    ),
    _usual("--boot-timeout", Duration(0.1), "60s", "How long a worker may take to get ready."),
    click.option(
        "--preload",
        is_flag=True,
        help="Import the app once, before the fork: its memory is shared, and HUP brings no new code.",
    ),
    _usual(
        "--keep-receipts",
        Keep(),
        "90d",
        "How long keys of completed tasks are remembered, or `forever`.",
    ),
    click.option(
        "--metrics",
        type=Address(),
        metavar="[HOST]:PORT",
        help="Serve Prometheus text there (loopback unless a host is given).",
    ),
    click.option(
        "--metrics-file",
        type=click.Path(dir_okay=False),
        help="Write it there every 15 s, for a textfile collector.",
    ),
    _usual("--connection-lifetime", Duration(1.0), "30m", "Connections are replaced at this age."),
)


def fleet_options(function: _F) -> _F:
    """Give a verb every option of the workers."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def fleet_config(
    settings: Settings,
    url: str,
    options: dict[str, Any],
    *,
    log_level: str,
    drain: Drain | None = None,
) -> FleetConfig:
    """The config of these options; UsageError where they contradict each other."""
    queues = _queues(options["queues"])
    return FleetConfig(
        dsn=url,
        app=app.find(settings.app, settings.app_dir),
        app_dir=settings.app_dir,
        procs=options["procs"] or _usual_procs(queues),
        queues=queues,
        priorities=dict(options["priorities"]),
        fair=options["fair"],
        lease_seconds=options["lease"],
        renew_seconds=options["renew"],
        backoff=options["backoff"] or Backoff(),
        grace_seconds=options["grace"],
        timeout_seconds=options["timeout"] or None,
        poll_seconds=options["poll"],
        listen=not options["no_listen"],
        max_tasks_per_child=options["max_tasks_per_child"],
        max_memory_per_child=options["max_memory_per_child"],
        boot_timeout_seconds=options["boot_timeout"],
        preload=options["preload"],
        keep_receipts_seconds=options["keep_receipts"],
        connection_seconds=options["connection_lifetime"],
        metrics=options["metrics"],
        metrics_file=options["metrics_file"],
        log_format=settings.log_format,
        log_level=settings.log_level(log_level),
        drain=drain,
        unsafe=_unsafe(settings),
    )


def preload(config: FleetConfig, settings: Settings) -> None:
    """Import the app where that is asked for; AppError when it does not load."""
    if not config.preload or config.app is None:
        return
    if threads := preloading.preload(config.app, config.app_dir):
        problems.tell(
            f"runner: warning: app {config.app} started {plural(len(threads), 'thread')} at import"
            f" ({', '.join(threads)}): no worker has them, and what they hold locked stays so;"
            " start them in on_worker_start, or leave --preload out",
            settings,
        )


def warn_of_connections(conn: "Connection", config: FleetConfig, settings: Settings) -> None:
    """Tell the arithmetic where a fleet needs more connections than are free; it runs with fewer."""
    from ..store.doctor import connections

    seen = connections(conn, config.helpers)
    needed = config.procs + config.helpers
    if needed > seen.free:
        problems.tell(
            f"runner: warning: {config.procs} workers need {needed} connections"
            f" ({config.procs} + {config.helpers}), {seen.free} are free: {seen.told()}",
            settings,
        )


def _queues(given: tuple[list[Queue], ...]) -> tuple[Queue, ...]:
    queues = tuple(queue for some in given for queue in some)
    names = [queue.name for queue in queues]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"--queue {sorted(twice)[0]} is given twice")
    return queues


def _usual_procs(queues: tuple[Queue, ...]) -> int:
    """The CPUs, or as many as the queues ask for and one for those that do not."""
    own = sum(queue.workers or 0 for queue in queues)
    return max(available_cpus(), own + any(queue.workers is None for queue in queues))


def _unsafe(settings: Settings) -> frozenset[str]:
    """RUNNER_UNSAFE takes safety away, so that tests can show what it is good for."""
    given = frozenset(filter(None, os.environ.get("RUNNER_UNSAFE", "").replace(" ", "").split(",")))
    if strange := given - UNSAFE:
        raise UsageError(f"RUNNER_UNSAFE: no such thing: {sorted(strange)[0]}")
    if given:
        problems.tell(
            f"runner: warning: RUNNER_UNSAFE={','.join(sorted(given))}: for tests only", settings
        )
    return given
