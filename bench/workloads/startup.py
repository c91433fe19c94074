"""How long nothing takes, and how long a dead worker is missing."""

import os
import signal
import time

from bench.fleet import PROCS, Fleet, drain_seconds, fleet
from bench.report import Line, Outcome, at_most
from bench.sizes import Sizes
from bench.stage import Stage, database

PAUSE_SECONDS = 2.0  # between deaths: none of them is one of many in a row
PATIENCE_SECONDS = 20.0


def startup(place: Stage, sizes: Sizes) -> Outcome:
    """`drain` with an empty queue, as cron starts it; then kills, one at a time."""
    count = sizes.repeat * sizes.starts
    with database(place) as url:
        drain_seconds(url)  # reads the programs from disk
        drains = [drain_seconds(url) for _ in range(count)]
        with fleet(place, url) as running:
            running.wait_idle(PROCS)
            replaced = [_replacement_seconds(running) for _ in range(count)]
    return Outcome(
        [
            Line("startup: drain with nothing to do", "s", drains, target=at_most(0.5)),
            Line("startup: killed worker to registered", "s", replaced, target=at_most(0.3)),
        ]
    )


def _replacement_seconds(running: Fleet) -> float:
    """From the kill to the row of the next worker on that slot."""
    time.sleep(PAUSE_SECONDS)
    slot, pid = next(iter(running.worker_pids().items()))
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    replaced = running.wait(
        lambda: running.worker_pids().get(slot, pid) != pid, PATIENCE_SECONDS, 0.002
    )
    if not replaced:
        raise running.failure(f"nobody replaced the worker on slot {slot}")
    return time.monotonic() - began
