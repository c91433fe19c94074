"""Where a handler stood when its process came to its end, written without any help of Python.

The worker's faulthandler writes the stack into a file in memory that the parent holds, too: at a crash
by itself, at a signal shortly before a kill. That works while the handler is stuck in C.
"""

import contextlib
import faulthandler
import os
import signal
import traceback
from pathlib import Path

from .text import safe

SIGNAL = getattr(signal, "SIGRTMAX", signal.SIGUSR2) - 3  # nothing that an app would use
AHEAD_SECONDS = 0.25  # by which the stack is asked for before a kill
LONGEST = 3000  # characters
FRAMES, NAME = 8, 150  # of a traceback, and the characters of a name in it
RAISED = "raised in (most recent call first):"
NOT_THERE = "raised by no Python of the handler: in C, or as its transaction ended"
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


def raised(error: BaseException) -> str:
    """Where in the handler an exception was raised: the innermost frames, and the handler's own where
    there are many. File, line and function, no values."""
    frames = [
        f'  File "{_end(frame.f_code.co_filename)}", line {line} in {_end(frame.f_code.co_name)}'
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not _is_ours(f'"{frame.f_code.co_filename}')
    ]
    if not frames:
        return NOT_THERE
    told = frames[: -FRAMES - 1 : -1]
    if more := len(frames) - len(told):
        told += [f"  … {more - 1} more"] if more > 1 else []
        told.append(frames[0])
    return "\n".join([RAISED, *told])[:LONGEST]


def _end(name: str) -> str:
    return safe(name)[-NAME:]


def _is_ours(frame: str) -> bool:
    return any(ours in frame for ours in _OURS)


def _handlers_part(stack: str) -> list[str]:
    kept: list[str] = []
    for line in stack.splitlines():
        if _is_ours(line):
            break
        if line.strip():
            kept.append(line)
    return kept
