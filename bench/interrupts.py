"""Ctrl-C and TERM end the run by an exception, once, and never while something is being made.

What is made inside `deferred()` is in the hands of a `finally` before the exception can come. Signals
after the first are ignored: they would cut the cleaning up short.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_depth = 0
_pending: int | None = None
_told = False


class Interrupted(BaseException):
    """The run was told to end by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def install() -> None:
    """From now on the first signal raises Interrupted."""
    for number in NUMBERS:
        signal.signal(number, _handle)


@contextmanager
def deferred() -> Iterator[None]:
    """A signal that comes inside is raised at the end."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        _raise_pending()


def _handle(number: int, frame: FrameType | None) -> None:
    global _pending, _told
    if not _told:
        _told, _pending = True, number
        _raise_pending()


def _raise_pending() -> None:
    global _pending
    if _depth == 0 and _pending is not None:
        number, _pending = _pending, None
        raise Interrupted(number)
