"""Tasks per second of four workers, against pgbench and psycopg with four clients on the same server."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from bench import plain
from bench.fleet import PROCS, fill, fleet
from bench.floor import CLAIM_1, CLAIM_50, CLAIM_EFFECT, EFFECT, Floor, floor_rate
from bench.handlers import tasks as app
from bench.rates import watch_to_end
from bench.report import Line, Outcome, Target, ratio_at_least
from bench.sizes import Sizes
from bench.stage import Connection, Stage, connect, database

Rates = Mapping[str, Callable[[Connection, str, int], float]]
NO_RATES: Rates = MappingProxyType({})


def noop(place: Stage, sizes: Sizes) -> Outcome:
    """A handler that does nothing: the price of a task."""
    return _against(place, sizes, "noop", CLAIM_50, ratio_at_least(0.4), _by_pgbench(CLAIM_1))


def effect(place: Stage, sizes: Sizes) -> Outcome:
    """One row written by the handler, committed with the deletion of its task."""
    beside = {**_by_pgbench(CLAIM_EFFECT), plain.NAME: plain.plain_rate}
    return _against(place, sizes, "effect", EFFECT, ratio_at_least(0.5), beside, PROCS * 2)


def effect_grouped(place: Stage, sizes: Sizes) -> Outcome:
    """The same where the handler agreed to share a transaction with others."""
    if "effect_grouped" not in app:
        return Outcome(notes=["skipped: this runner has no @task(group=True)"])
    return _against(place, sizes, "effect_grouped", EFFECT, ratio_at_least(1.2))


def task_rate(
    place: Stage, url: str, task_type: str, tasks: int, seconds: float, procs: int
) -> float:
    """Of a new fleet on a filled queue."""
    with connect(url) as conn:
        fill(conn, {task_type: tasks})
    with fleet(place, url, procs=procs) as running:
        return watch_to_end(running, procs, tasks, seconds).rate


def _by_pgbench(floor: Floor) -> Rates:
    return {floor.name: lambda conn, url, tasks: floor_rate(conn, url, floor, tasks)}


def _against(
    place: Stage, sizes: Sizes, task_type: str, floor: Floor, target: Target,
    beside: Rates = NO_RATES, more: int = 0,
) -> Outcome:  # fmt: skip
    """Floor, ours, floor, ours …; told without a target: other floors, by name, and so many workers
    against the same first one."""
    name = task_type.replace("_", "-")
    line = Line(name, "tasks/s", [], [], floor.name, target)
    others = {other: Line(name, "tasks/s", line.ours, [], other) for other in beside}
    third = Line(f"{name}, {more} processes", "tasks/s", [], line.floor, floor.name)
    with database(place) as url, connect(url) as conn:
        for _ in range(sizes.repeat):
            line.floor.append(floor_rate(conn, url, floor, _floor_tasks(sizes, floor.batch)))
            line.ours.append(
                task_rate(place, url, task_type, sizes.tasks, sizes.most_seconds, PROCS)
            )
            for other, rate in beside.items():
                others[other].floor.append(rate(conn, url, _floor_tasks(sizes)))
            if more:
                third.ours.append(
                    task_rate(place, url, task_type, sizes.tasks, sizes.most_seconds, more)
                )
    return Outcome([line, *others.values(), *([third] if more else [])])


def _floor_tasks(sizes: Sizes, batch: int = 1) -> int:
    return sizes.floor_tasks if batch > 1 else sizes.floor_tasks // 8
