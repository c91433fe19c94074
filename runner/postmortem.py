"""Where a handler stood when its process came to its end, written without any help of Python.

The worker's faulthandler writes the stack into a file in memory that the parent holds, too: at a crash
by itself, at a signal shortly before a kill. That works while the handler is stuck in C.
"""

import contextlib
import faulthandler
import os
import signal
from pathlib import Path

SIGNAL = getattr(signal, "SIGRTMAX", signal.SIGUSR2) - 3  # nothing that an app would use
AHEAD_SECONDS = 0.25  # by which the stack is asked for before a kill
LONGEST = 3000  # characters
MIB = 1 << 20
_OURS = tuple(f'"{Path(__file__).parent}/{room}/' for room in ("handling", "registry", "roles"))


def be_ready(fd: int) -> None:
    """In the worker: write the stack of the main thread there when it crashes, and at SIGNAL."""
    faulthandler.enable(fd, all_threads=False)
    faulthandler.register(SIGNAL, fd, all_threads=False)


def ask(pid: int, fd: int) -> None:
    """In the parent: have the worker write where it stands. It never waits for that."""
    os.ftruncate(fd, 0)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, SIGNAL)


def read(fd: int) -> str:
    """What is written there."""
    return os.pread(fd, 4 * LONGEST, 0).decode("utf-8", "replace")


def told(stack: str, peak_bytes: int | None) -> str | None:
    """The text that is kept with the task: up to how much memory its process had, where that may be the
    reason, and the frames of the handler, without ours below it. None where nothing is known."""
    lines = []
    if peak_bytes:
        lines.append(f"its process had up to {peak_bytes / MIB:.0f} MiB of memory")
    lines += _handlers_part(stack)
    return "\n".join(lines)[:LONGEST] or None


def _handlers_part(stack: str) -> list[str]:
    kept: list[str] = []
    for line in stack.splitlines():
        if any(ours in line for ours in _OURS):
            break
        if line.strip():
            kept.append(line)
    return kept
