"""Tasks per second of four workers, against pgbench with four clients on the same server."""

from bench.fleet import PROCS, fill, fleet
from bench.floor import CLAIM_1, CLAIM_50, CLAIM_EFFECT, EFFECT, Floor, floor_rate
from bench.handlers import tasks as app
from bench.rates import watch_to_end
from bench.report import Line, Outcome, Target, ratio_at_least
from bench.sizes import Sizes
from bench.stage import Stage, connect, database


def noop(place: Stage, sizes: Sizes) -> Outcome:
    """A handler that does nothing: the price of a task."""
    return _against(place, sizes, "noop", CLAIM_50, ratio_at_least(0.4), beside=CLAIM_1)


def effect(place: Stage, sizes: Sizes) -> Outcome:
    """One row written by the handler, committed with the deletion of its task."""
    target = ratio_at_least(0.5)
    return _against(place, sizes, "effect", EFFECT, target, beside=CLAIM_EFFECT, more=PROCS * 2)


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


def _against(
    place: Stage, sizes: Sizes, task_type: str, floor: Floor, target: Target,
    beside: Floor | None = None, more: int = 0,
) -> Outcome:  # fmt: skip
    """Floor, ours, floor, ours …; told without a target: a second floor, `beside`, and so many workers
    against the same first one."""
    name = task_type.replace("_", "-")
    line = Line(name, "tasks/s", [], [], floor.name, target)
    second = Line(name, "tasks/s", line.ours, [], beside.name if beside else "")
    third = Line(f"{name}, {more} processes", "tasks/s", [], line.floor, floor.name)
    with database(place) as url, connect(url) as conn:
        for _ in range(sizes.repeat):
            line.floor.append(floor_rate(conn, url, floor, _floor_tasks(sizes, floor)))
            line.ours.append(
                task_rate(place, url, task_type, sizes.tasks, sizes.most_seconds, PROCS)
            )
            if beside is not None:
                second.floor.append(floor_rate(conn, url, beside, _floor_tasks(sizes, beside)))
            if more:
                third.ours.append(
                    task_rate(place, url, task_type, sizes.tasks, sizes.most_seconds, more)
                )
    told = [line, *([second] if beside else []), *([third] if more else [])]
    return Outcome(told)


def _floor_tasks(sizes: Sizes, floor: Floor) -> int:
    return sizes.floor_tasks if floor.batch > 1 else sizes.floor_tasks // 8
