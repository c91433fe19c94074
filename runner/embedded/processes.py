"""Which processes serve a data directory.

A PID from a file proves nothing, a working directory does: PostgreSQL changes into its data
directory, so on Linux /proc tells who serves it. Elsewhere `ps` tells whether the PID in the file
is a postgres at all.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

from ..errors import EmbeddedError

PROC = Path("/proc")


def serving(data: Path) -> dict[int, int]:
    """PID -> parent PID of every living PostgreSQL process of this data directory."""
    if not (PROC / "self" / "cwd").is_symlink():
        return _serving_by_ps(data)
    here = str(data.resolve())
    found: dict[int, int] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            parent = _parent_if_serving(entry, here)
            if parent is not None:
                found[int(entry.name)] = parent
    return found


def postmaster(data: Path) -> int | None:
    """The PID of the living postmaster, or None. Orphans of a killed one are not it."""
    found = serving(data)
    if not found:
        return None
    recorded = recorded_pid(data)
    return recorded if recorded in found else _root_of(found)


def recorded_pid(data: Path) -> int | None:
    """What the first line of postmaster.pid says; None when missing, empty or not a number."""
    try:
        lines = (data / "postmaster.pid").read_text(errors="replace").splitlines()
        return int(lines[0]) if len(lines) >= 3 else None
    except (OSError, ValueError, IndexError):
        return None


def end_orphans(data: Path, patience_seconds: float = 2.0) -> None:
    """Wait for what a killed postmaster left; a backend that is too busy to notice is terminated.

    A new server beside living backends of the old one would corrupt the data, so this raises
    EmbeddedError rather than go on.
    """
    if not wait_gone(data, patience_seconds):
        for pid in serving(data):
            send(pid, signal.SIGTERM)
        if not wait_gone(data, 5.0):
            pids = ", ".join(map(str, serving(data)))
            raise EmbeddedError(f"processes of a killed server still use {data}: {pids}")


def wait_gone(data: Path, seconds: float) -> bool:
    """Whether nothing serves the data directory any more, at the latest after `seconds`."""
    end = time.monotonic() + seconds
    while serving(data):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process that may be gone already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _root_of(found: dict[int, int]) -> int | None:
    """The one whose children the others are; a lone process is a postmaster only if it has none
    of the marks of a backend, which we cannot see, so no answer is given for it."""
    roots = [pid for pid, parent in found.items() if parent not in found]
    return roots[0] if len(roots) == 1 and len(found) > 1 else None


def _parent_if_serving(entry: Path, here: str) -> int | None:
    """Zombies and other users' processes have no readable working directory: not serving."""
    try:
        if os.readlink(entry / "cwd") != here:
            return None
        name, rest = (entry / "stat").read_text().rsplit(")", 1)
        return int(rest.split()[1]) if name.split("(", 1)[1] == "postgres" else None
    except (OSError, ValueError, IndexError):
        return None


def _serving_by_ps(data: Path) -> dict[int, int]:
    pid = recorded_pid(data)
    if pid is None:
        return {}
    command = ["ps", "-p", str(pid), "-o", "ppid=,command="]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout
    return {pid: int(shown.split()[0])} if "postgres" in shown else {}
