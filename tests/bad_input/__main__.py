"""Prints each case: kind, what was typed, exit code, what stderr says; ends with 1 when one is wrong."""

import sys
import tempfile
from pathlib import Path

from tests import servers
from tests.bad_input.places import answers, faults, places
from tests.servers import chosen_binaries, prepare


def main() -> int:
    """Make the places, run the cases, print the table."""
    wrong = 0
    with (
        servers.throw_away_server(chosen_binaries()) as server,
        tempfile.TemporaryDirectory() as home,
    ):
        prepare(server)
        with places(server) as urls:
            for case, result, values in answers(urls, Path(home)):
                words = " ".join(
                    word if len(word) < 50 else f"{word[:47]}..." for word in case.words
                )
                place = f" [{case.place}]" if case.place != "db" else ""
                said = " / ".join(result.stderr.replace(str(values["cwd"]), ".").splitlines())
                print(f"{case.kind} | {words!r}{place} | {result.returncode} | {said}")
                for fault in faults(case, result, values):
                    wrong += 1
                    print(f"    WRONG: {fault}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
