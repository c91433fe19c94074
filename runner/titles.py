"""What `ps` calls a child where setproctitle is installed; otherwise all are called like the parent."""

import importlib
from collections.abc import Callable
from typing import Any


def _found() -> Callable[[str], Any] | None:
    try:
        set_title: Callable[[str], Any] = importlib.import_module("setproctitle").setproctitle
    except ImportError:
        return None
    return set_title


_set_title = _found()


def entitle(role: str, slot: int | None) -> None:
    """Call this process by its role, and a worker by its slot."""
    if _set_title is not None:
        _set_title(f"runner: {role}" if slot is None else f"runner: {role} {slot}")
