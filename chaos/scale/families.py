"""`scripts/hosts families`: a database for each family of queues, each on a host of its own, with a
fleet for each on every host. One primary goes away on the way: the other family does not notice.
"""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from chaos import hosts, server
from chaos.cluster import founded
from chaos.scale.ground import OPTIONS, Found, Ground, on, room

NAMES = ("mail", "reports")
NAP = 0.05


@contextlib.contextmanager
def families(count: int, procs: int, binaries: Path | None = None) -> Iterator[list[Ground]]:
    """A ground for each name, on the same hosts; nothing is started."""
    options = ("--procs", str(procs), *OPTIONS)
    given = {"max_connections": str(room(count, procs))}
    with (
        server.place(binaries) as place,
        hosts.network() as network,
        contextlib.ExitStack() as stack,
    ):
        machines = [network.add(f"h{number}") for number in range(count)]
        grounds = []
        for name in NAMES:
            made = founded(network, place, name, **given)
            made.inhabit(machines, options)
            stack.callback(made.stop)
            grounds.append(on(made, stack.enter_context(made.connect()), procs))
        yield grounds


def apart(grounds: Sequence[Ground], tasks: int) -> Found:
    """Work for all; then the first family's primary is away until the others are through."""
    first, *others = grounds
    for ground in grounds:
        ground.start()
        ground.add("slow", tasks, seconds=NAP)
    for ground in grounds:
        ground.until(lambda ground=ground: ground.left() == 0, "all done")  # type: ignore[misc]
    first.add("slow", tasks, seconds=NAP)
    first.until(lambda: first.left() < tasks, "the family at work")
    first.made.server.crash()
    for ground in others:
        ground.add("slow", tasks, seconds=NAP)
        ground.until(lambda ground=ground: ground.left() == 0, "the others done")  # type: ignore[misc]
    first.made.server.start()
    with first.made.connect() as conn:
        first.conn = conn
        first.until(lambda: first.left() == 0, "all done after the crash")
        wrong = [f"{name}: {one}" for name, ground in zip(NAMES, grounds, strict=True)
                 for one in ground.faults()]  # fmt: skip
        effects = [sum(ground.shares(0).values()) for ground in grounds]
    wrong += [] if effects == [2 * tasks] * len(grounds) else [f"effects {effects}"]
    said = (
        f"{len(grounds)} databases, {len(first.runners)} hosts with a fleet of {first.procs} workers"
        f" for each, {2 * tasks} tasks in each: effects {effects}; the first primary was away while"
        f" the others did {tasks} each"
    )
    return Found(said, wrong)


def main() -> int:
    """0: as promised; 1: not; 2: there can be no hosts here."""
    parser = argparse.ArgumentParser(prog="scripts/hosts families", description=__doc__)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--procs", type=int, default=4, help="workers of each fleet (default: 4)")
    parser.add_argument("--tasks", type=int, default=2000)
    options = parser.parse_args()
    if reason := hosts.lacking():
        sys.stderr.write(f"{reason}\n")
        return 2
    with families(options.hosts, options.procs) as grounds:
        found = apart(grounds, options.tasks)
    verdict = f"WRONG: {'; '.join(found.wrong)}" if found.wrong else "as promised"
    sys.stdout.write(f"{found.said}: {verdict}\n")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
