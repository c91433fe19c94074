"""The app of `runner demo`: size, lines and SHA-256 of one file a task, written to a table.

The row is inserted in the transaction that deletes the task, so that neither comes without the other,
however the worker ends.
"""

import hashlib
import json
import os
import stat
import sysconfig
from collections.abc import Iterator
from typing import Any

from .registry import Registry
from .store import demo
from .task import Task
from .text import storable

CHUNK = 1 << 20
NOT_THE_LIBRARY = {"site-packages", "dist-packages", "__pycache__"}

tasks = Registry()


@tasks.task("demo_file", max_attempts=5, timeout=600)
def demo_file(tx: Any, task: Task) -> None:
    """Read one file and write down what it holds."""
    path = task.params["path"]
    place = bytes.fromhex(task.params["raw"]) if "raw" in task.params else path
    demo.write(tx, path, _read(place), os.getpid())


def _read(place: str | bytes) -> tuple[int, int, str] | None:
    """Bytes, lines and digest; None where the file has gone meanwhile."""
    digest, size, lines = hashlib.sha256(), 0, 0
    try:
        with open(place, "rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
                lines += chunk.count(b"\n")
    except OSError:
        return None
    return size, lines, digest.hexdigest()


def params_of(path: str) -> str:
    """The params of a file as JSON text; a path that is not UTF-8 comes with its bytes."""
    shown = storable(path)
    return json.dumps({"path": shown} if shown == path else {"path": shown, "raw": _hex(path)})


def files_below(directory: str | None) -> Iterator[str]:
    """Absolute paths of the readable regular files below it; None: the standard library."""
    top = os.path.abspath(directory or sysconfig.get_path("stdlib"))
    for place, below, names in os.walk(top):
        if directory is None:
            below[:] = [name for name in below if name not in NOT_THE_LIBRARY]
        for name in names:
            path = os.path.join(place, name)
            if _is_file(path):
                yield path


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode) and os.access(path, os.R_OK)
    except OSError:
        return False


def _hex(path: str) -> str:
    return os.fsencode(path).hex()
