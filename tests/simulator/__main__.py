"""`python -m tests.simulator`: a long campaign, or one history again (`--seed`)."""

import argparse
import multiprocessing
import sys
import time

from .campaign import FAULTS_EACH, Result, caught, play
from .mutations import GUARDS


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--faults", type=int, default=1_000_000, help="stop after so many")
    parser.add_argument("--seed", type=int, help="play this history alone")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--guards", action="store_true", help="take out each guard in turn")
    return parser.parse_args()


def campaign(faults: int, first: int, jobs: int) -> Result:
    """Histories side by side until there were enough faults."""
    total = Result()
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        count = faults // FAULTS_EACH + 1
        seeds = range(first, first + count)
        for result in pool.imap_unordered(play, seeds, chunksize=4):
            total += result
    return total


def main() -> int:
    options = _arguments()
    began = time.monotonic()
    if options.guards:
        return _guards()
    if options.seed is not None:
        result = play(options.seed)
    else:
        result = campaign(options.faults, options.first_seed, options.jobs)
    seconds = time.monotonic() - began
    count = result.faults.total()
    for name, number in result.faults.most_common():
        print(f"  {name:20} {number:>9}")
    print(
        f"{count} faults in {seconds:.1f} s ({count / seconds:.0f} a second), {result.done} tasks done"
    )
    for seed, words in result.broken:
        print(f"VIOLATION: {words}; again with --seed {seed}")
    print(f"violations: {len(result.broken)}")
    return 1 if result.broken else 0


def _guards() -> int:
    missed = 0
    for guard in GUARDS:
        result = caught(guard)
        missed += not result.broken
        words = result.broken[0][1] if result.broken else "NOT CAUGHT"
        print(f"{guard.name}: {words} (after {result.faults.total()} faults)")
    print(f"{len(GUARDS)} guards taken out in turn, {len(GUARDS) - missed} of them caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
