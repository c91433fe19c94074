"""`scripts/chaos`: two fleets and a server under faults, judged by witnesses outside of them."""

import argparse
import json
import random
import signal
import sys
from collections.abc import Collection
from pathlib import Path

from chaos import report
from chaos.campaign import LONG_FOOD, Campaign, Result
from chaos.faults import CONTROL, CONTROL_LEASES, FAULTS
from chaos.schedule import in_turns, schedule
from chaos.stage import LEASE_SECONDS, Stage, stage

UNSAFE = {"RUNNER_UNSAFE": "no-timer,no-kill"}
TURN_SECONDS = (CONTROL_LEASES + 1) * LEASE_SECONDS


def main() -> int:
    """0: the promise was kept; with --control: its violation was seen. 1: not so."""
    options = _parser().parse_args()
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    sys.stderr.write(f"seed {seed}\n")
    # An end from outside is one, too: servers, networks and mounts must not outlive it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with stage(
        procs=options.procs, env=UNSAFE if options.control else None, pooled=options.pooler
    ) as place:
        skipped = {} if options.control else _skipped(place, options)
        for fault, reason in skipped.items():
            sys.stderr.write(f"no {fault}: {reason}\n")
        result = (
            _control(place, options, seed)
            if options.control
            else _soak(place, options, skipped, seed)
        )
        if options.keep:
            _keep(place.directory, options.keep)
    facts = {"seed": seed, "planned_seconds": options.seconds, "control": options.control}
    sys.stdout.write(report.as_text(result, skipped, **facts) + "\n")
    if options.json:
        options.json.write_text(
            json.dumps(report.as_json(result, skipped, **facts), indent=2) + "\n"
        )
    good = bool(result.judgement.overlaps) if options.control else report.kept(result)
    return 0 if good else 1


def _skipped(place: Stage, options: argparse.Namespace) -> dict[str, str]:
    chosen = options.only or FAULTS
    return {
        name: place.lacking[fault.needs]
        for name, fault in FAULTS.items()
        if name in chosen and fault.needs in place.lacking
    }


def _soak(place: Stage, options: argparse.Namespace, skipped: Collection[str], seed: int) -> Result:
    chosen = set(options.only or FAULTS) - set(skipped)
    rates = {name: fault.per_minute for name, fault in FAULTS.items() if name in chosen}
    strikes = schedule(rates, options.seconds, seed)
    return Campaign(place).run(strikes, options.seconds, seed)


def _control(place: Stage, options: argparse.Namespace, seed: int) -> Result:
    strikes = in_turns(list(CONTROL), TURN_SECONDS, options.seconds, seed)
    return Campaign(place, CONTROL, LONG_FOOD).run(strikes, options.seconds, seed)


def _keep(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    add = parser.add_argument
    add("--seconds", type=float, default=600, help="how long faults strike (default: 600)")
    add("--seed", type=int, help="replays the schedule of that seed (default: a new one)")
    add("--procs", type=int, default=4, help="workers of each of the two fleets (default: 4)")
    add("--only", nargs="+", choices=FAULTS, metavar="FAULT", help=", ".join(FAULTS))
    add("--control", action="store_true", help="without timer and kill: overlaps must be seen")
    add("--pooler", action="store_true", help="both fleets through PgBouncer, transaction mode")
    add("--json", type=Path, metavar="FILE", help="the report for programs")
    add("--keep", type=Path, metavar="DIR", help="copy the witnesses' files and the fleets' logs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
