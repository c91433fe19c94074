"""`scripts/hosts`: fleets on many hosts share one queue; what each phase came to, a line each."""

import argparse
import sys
from collections.abc import Iterator

from chaos import clock, hosts
from chaos.scale.clocks import clocks
from chaos.scale.deploying import deploying
from chaos.scale.draining import draining
from chaos.scale.ground import Found, Ground, ground
from chaos.scale.sharing import sharing

CUTS = [1.0, 3.0, 6.0]  # seconds; the lease is 5
NAP = 0.15
EACH = 400


def phases(place: Ground, tasks: int) -> Iterator[Found]:
    """Each on the ground that the one before it left."""
    place.start()
    yield sharing(place, tasks, nap=NAP, cuts=CUTS)
    yield deploying(place, EACH)
    place.made.stop()
    yield draining(place, 3 * EACH)
    if reason := clock.lacking():
        yield Found(f"no host with a wrong clock: {reason}")
    else:
        yield clocks(place, EACH)


def main() -> int:
    """0: everything as promised; 1: not; 2: there can be no hosts here."""
    parser = argparse.ArgumentParser(prog="scripts/hosts", description=__doc__)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--procs", type=int, default=8, help="workers of each host (default: 8)")
    parser.add_argument("--tasks", type=int, default=50_000)
    options = parser.parse_args()
    if reason := hosts.lacking():
        sys.stderr.write(f"{reason}\n")
        return 2
    bad = 0
    with ground(options.hosts, options.procs) as place:
        for found in phases(place, options.tasks):
            bad += len(found.wrong)
            verdict = f"WRONG: {'; '.join(found.wrong)}" if found.wrong else "as promised"
            sys.stdout.write(f"{found.said}: {verdict}\n")
            sys.stdout.flush()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
