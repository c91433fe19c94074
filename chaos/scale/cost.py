"""`scripts/hosts cost`: statements and bytes of WAL, of idle hosts and of a task, by number of hosts."""

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.plots import Points, lines
from chaos import hosts
from chaos.scale.counting import Cost, Work, cost

NUMBERS = (1, 2, 4, 8)
OF_WORK = ("WAL bytes", "tasks a claim", "buffers a claim", "waiting for a lock")
HEAD = (
    *("hosts x workers", "connections", "idle, a second: statements", "WAL bytes"),
    *("a task with an effect: statements", *OF_WORK),
    *("a task without: statements", *OF_WORK),
)


def cells(one: Cost) -> list[str]:
    """As in HEAD."""
    parts = [f"{one.hosts} x {one.procs}", f"{one.connections}"]
    parts += [f"{one.idle_statements:.1f}", f"{one.idle_wal:.0f}"]
    for work in (one.effect, one.nothing):
        parts += [f"{work.statements:.1f}", f"{work.wal:.0f}"]
        parts += [f"{work.tasks_a_claim:.1f}", f"{work.buffers_a_claim:.0f}"]
        parts += [f"{work.waiting:.1%}"]
    return parts


def row(values: Sequence[str]) -> str:
    """A line of a table in Markdown."""
    return f"| {' | '.join(values)} |\n"


def draw(directory: Path, name: str, table: Sequence[Cost]) -> None:
    """NAME-idle.svg, NAME-wal.svg and NAME-claims.svg: each against the number of workers."""
    directory.mkdir(parents=True, exist_ok=True)
    at = [one.hosts * one.procs for one in table]
    works = {
        "with an effect": [one.effect for one in table],
        "without": [one.nothing for one in table],
    }

    def series(of: Callable[[Work], float]) -> dict[str, Points]:
        return {kind: list(zip(at, map(of, some), strict=True)) for kind, some in works.items()}

    idle: dict[str, Points] = {
        "": [(n, one.idle_statements) for n, one in zip(at, table, strict=True)]
    }
    wal, claims = series(lambda work: work.wal), series(lambda work: work.buffers_a_claim)
    for end, text in (
        ("idle", lines("Fleets without work", "workers", "statements a second", idle)),
        ("wal", lines("What a task writes", "workers", "bytes of WAL", wal)),
        ("claims", lines("What a claim reads", "workers at one queue", "buffers", claims)),
    ):
        (directory / f"{name}-{end}.svg").write_text(text, "utf-8")


def main() -> int:
    """0: a table was printed; 2: there can be no hosts here."""
    parser = argparse.ArgumentParser(prog="scripts/hosts cost", description=__doc__)
    add = parser.add_argument
    add("--hosts", type=int, nargs="+", default=NUMBERS)
    add("--procs", type=int, nargs="+", default=[8], help="workers of a host (default: 8)")
    add("--tasks", type=int, default=8000, help="of each of two kinds (default: 8000)")
    add("--idle", type=float, default=60.0, help="seconds to count for (default: 60)")
    add("--often", type=int, default=0, help="and so many of the most frequent idle statements")
    add("--plots", type=Path, metavar="DIR", help="draw the table there as NAME-….svg")
    add("--name", default="hosts", help="of the plots (default: hosts)")
    options = parser.parse_args()
    if reason := hosts.lacking():
        sys.stderr.write(f"{reason}\n")
        return 2
    sys.stdout.write(row(HEAD) + "|---" * len(HEAD) + "|\n")
    table = []
    for count, procs in itertools.product(options.hosts, options.procs):
        found = cost(count, procs, options.tasks, options.idle, options.often)
        table.append(found)
        sys.stdout.write(row(cells(found)))
        for rate, query in found.often:
            sys.stdout.write(f"  {rate:.2f}/s {query}\n")
        sys.stdout.flush()
    if options.plots is not None:
        draw(options.plots, options.name, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
