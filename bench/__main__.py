"""scripts/bench: every workload on one server in one run; a table, and JSON and plots if asked for.

Runs in the venv of the checkout. The server is a new embedded PostgreSQL in a temporary directory, with
fsync on, or that of --url, in databases of its own there. Nothing is left behind, Ctrl-C included.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from bench import interrupts, machine, plots, report, sizes
from bench.fleet import BenchError
from bench.report import Outcome
from bench.stage import stage
from bench.workloads import ALL
from runner.errors import RunnerError


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 1 where a workload could not be measured. Targets are for people to judge."""
    options = _parser().parse_args(arguments)
    interrupts.install()
    try:
        outcomes, facts = _run(options)
    except interrupts.Interrupted as stop:
        _say("bench: interrupted")
        return stop.exit_code
    except (BenchError, RunnerError, psycopg.Error, OSError) as error:
        _say(f"bench: error: {error}")
        return 1
    sys.stdout.write(f"{_heading(facts)}\n{report.table(outcomes)}\n")
    if options.json:
        report.write_json(options.json, facts, outcomes)
    if options.plots:
        for path in plots.write(options.plots, outcomes):
            _say(f"bench: wrote {path}")
    return int(any(each.failed for each in outcomes.values()))


def _run(options: argparse.Namespace) -> tuple[dict[str, Outcome], dict[str, Any]]:
    chosen = replace(options.sizes, repeat=options.repeat or options.sizes.repeat)
    outcomes: dict[str, Outcome] = {}
    began = time.monotonic()
    with stage(options.url, options.dir) as place:
        facts = machine.facts(place) | {"command": _command(options), "repeat": chosen.repeat}
        if facts["file_system"] in ("tmpfs", "ramfs") and place.embedded:
            _say("bench: warning: the data lies in memory, fsync costs nothing: see --dir")
        for name in options.only or ALL:
            _say(f"bench: {name} ({time.monotonic() - began:.0f} s)")
            try:
                outcomes[name] = ALL[name](place, chosen)
            except (BenchError, psycopg.Error) as error:  # the others are still worth having
                outcomes[name] = Outcome(notes=[f"failed: {error}"], failed=True)
                _say(f"bench: error: {name}: {error}")
    return outcomes, facts | {"seconds": round(time.monotonic() - began, 1)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.splitlines()[0])
    parser.set_defaults(sizes=sizes.FULL)
    add = parser.add_argument
    add("--url", help="measure on this server, in new databases (default: an embedded one)")
    add("--dir", type=Path, help="where the temporary directory is made: a real disk")
    add("--quick", dest="sizes", action="store_const", const=sizes.QUICK,
        help="everything in less than two minutes")  # fmt: skip
    add("--tiny", dest="sizes", action="store_const", const=sizes.TINY, help=argparse.SUPPRESS)
    add("--only", nargs="+", choices=ALL, metavar="NAME", help=", ".join(ALL))
    add("--repeat", type=int, help="interleaved repetitions (default: 3; quick: 1)")
    add("--json", type=Path, metavar="FILE", help="every repetition, with the machine's facts")
    add("--plots", type=Path, metavar="DIR", help="write SVG files there")
    return parser


def _command(options: argparse.Namespace) -> str:
    """As typed, without the places and the password in it."""
    words = ["scripts/bench"]
    words += ["--url", "…"] if options.url else []
    words += {id(sizes.QUICK): ["--quick"], id(sizes.TINY): ["--tiny"]}.get(id(options.sizes), [])
    words += ["--only", *options.only] if options.only else []
    words += ["--repeat", str(options.repeat)] if options.repeat else []
    return " ".join(words)


def _heading(facts: dict[str, Any]) -> str:
    return (
        f"{facts['command']}   {facts['date']}\n"
        f"{facts['cpus']} CPUs ({facts['cpu']}), {facts['system']}, {facts['file_system']},"
        f" fdatasync {facts['fdatasync_ms']} ms\n"
        f"PostgreSQL {facts['postgresql']} ({facts['server']}), Python {facts['python']}"
        f" (a call {facts['python_call_ns']} ns), runner {facts['runner']};"
        f" medians of {facts['repeat']}\n"
    )


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
