"""What faults yield, and how processes stand still meanwhile."""

import signal
from collections.abc import Iterator

from chaos import processes
from chaos.stage import Missed

Waits = Iterator[float]  # seconds until it goes on


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process; Missed when it is gone."""
    if not processes.send(pid, number):
        raise Missed


def frozen(pids: list[int], seconds: float) -> Waits:
    """Stop processes, and continue those that are still the same."""
    if not [pid for pid in pids if processes.send(pid, signal.SIGSTOP)]:
        raise Missed
    born = {pid: processes.born(pid) for pid in pids}
    try:
        yield seconds
    finally:
        for pid in pids:
            if processes.born(pid) == born[pid]:
                processes.send(pid, signal.SIGCONT)
