"""What the kernel says about processes: their tree, CPU time and memory."""

import os
from collections.abc import Iterable
from pathlib import Path

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


def family(root: int) -> list[int]:
    """A process and everything below it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            parents[int(entry.name)] = int(fields[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time that these have used so far; of those still there."""
    return sum(_cpu_seconds(pid) for pid in pids)


def pss_bytes(pid: int) -> int:
    """Proportional set size: shared pages count by their share; 0 when it is gone."""
    return _of_all_maps(pid, "Pss:")


def rss_bytes(pid: int) -> int:
    """All that is resident, shared or not: what grows when something is kept; 0 when it is gone."""
    return _of_all_maps(pid, "Rss:")


def _of_all_maps(pid: int, name: str) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    lines = (line.split() for line in text.splitlines())
    return next((int(fields[1]) * 1024 for fields in lines if fields[0] == name), 0)


def _cpu_seconds(pid: int) -> float:
    """By the scheduler's nanoseconds where it tells, else by ticks of 10 ms."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9
    except (OSError, IndexError):
        fields = _stat(pid)
        return (int(fields[11]) + int(fields[12])) * TICK_SECONDS if fields else 0.0


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name: state, parent, …"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []
