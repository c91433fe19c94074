"""What a child has of its parent's Python objects and must not use.

Another thread of the parent may have held the lock of a stream or of a log handler at the moment of the
fork: it is held for ever in the child. And their descriptors are closed, or somebody else's by now.
Ours is a parent without threads; a script of somebody's own that calls our command may have some.
"""

import contextlib
import logging
import sys
from typing import Any, TextIO

_KEPT: list[object] = []  # collected, they would close whatever has their number now


def forget_streams() -> None:
    """New standard output and error on the descriptors as they are now; no log handlers."""
    for logger in (logging.root, *logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            _KEPT.extend(logger.handlers)
            logger.handlers.clear()
    _KEPT.extend((sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__))
    sys.stdout, sys.stderr = _anew(1, sys.stdout), _anew(2, sys.stderr)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]


def _anew(fd: int, former: TextIO | None) -> Any:
    """A stream on this descriptor that writes as the former one did; None where it is closed."""
    with contextlib.suppress(OSError):
        encoding = getattr(former, "encoding", None) or "utf-8"
        return open(fd, "w", 1, encoding, "backslashreplace", closefd=False)
    return None
