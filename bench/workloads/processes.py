"""Throughput of no-op tasks with 1, 2, 4, 8 workers."""

from bench.report import Line, Outcome
from bench.sizes import Sizes
from bench.stage import Stage, database
from bench.workloads.throughput import task_rate


def processes(place: Stage, sizes: Sizes) -> Outcome:
    """Interleaved; the other side of each ratio is one worker."""
    rates: dict[int, list[float]] = {procs: [] for procs in sizes.processes}
    with database(place) as url:
        for _ in range(sizes.repeat):
            for procs, found in rates.items():
                seconds = sizes.most_seconds / 2
                found.append(task_rate(place, url, "noop", sizes.tasks, seconds, procs))
    one = rates[min(rates)]
    lines = [
        Line(f"procs {procs}", "tasks/s", found, one, f"{min(rates)} process")
        for procs, found in rates.items()
    ]
    points = [[line_procs, line.median] for line_procs, line in zip(rates, lines, strict=True)]
    return Outcome(lines, details={"points": points})
