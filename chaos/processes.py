"""Looking at processes and signalling them, by the process table alone."""

import os
import signal
from pathlib import Path


def fields_of(pid: int) -> list[str] | None:
    """State and what follows it in /proc/PID/stat; None when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None


def gone(pid: int) -> bool:
    """Whether it ended; a zombie that nobody has waited for yet counts as ended."""
    fields = fields_of(pid)
    return fields is None or fields[0] == "Z"


def born(pid: int) -> str | None:
    """When it began, in the kernel's ticks: with the pid it names one process for good."""
    fields = fields_of(pid)
    return fields[19] if fields else None


def address_space(pid: int) -> int:
    """How much of it is mapped, in bytes; FileNotFoundError when the process is gone."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def children_of(pid: int) -> list[int]:
    """The living children of a process."""
    try:
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(word) for word in words if not gone(int(word))]


def send(pid: int, number: signal.Signals) -> bool:
    """Signal a process; False when it is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
