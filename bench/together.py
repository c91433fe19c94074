"""Processes of the bench's own that begin at once: each is ready, waits for a line, tells a number."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from bench.fleet import BenchError, environment
from bench.interrupts import deferred


def together(url: str, module: str, arguments: Sequence[Sequence[object]]) -> tuple[int, float]:
    """The sum of what `python -m MODULE` tells, started once for each of these, and the seconds."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(_process([sys.executable, "-m", module, *map(str, of_one)], url))
            for of_one in arguments
        ]
        for each in processes:
            _line_of(each)
        began = time.monotonic()
        for each in processes:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        total = sum(int(_line_of(each)) for each in processes)
        return total, time.monotonic() - began


def ready() -> None:
    """Say so, and wait to be told to go; for the process."""
    tell("ready")
    if not sys.stdin.readline():
        sys.exit(1)  # the bench is gone


def tell(what: object) -> None:
    """A line to the bench; for the process."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


@contextmanager
def _process(command: list[str], url: str) -> Iterator[subprocess.Popen[str]]:
    process: subprocess.Popen[str] | None = None
    env = environment({"DATABASE_URL": url})
    try:
        with deferred():
            process = subprocess.Popen(
                command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        yield process
    finally:
        if process is not None:
            process.kill()  # it has said all it had to say
            process.communicate()


def _line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise BenchError("a process of the bench ended early")
    return line.strip()
