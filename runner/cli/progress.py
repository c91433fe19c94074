"""A progress bar on stderr, where that is a terminal; elsewhere nothing."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..terminal import is_terminal
from .settings import Settings

if TYPE_CHECKING:
    import rich.progress

_EVERY_SECONDS = 0.1


class Progress:
    """Counts bytes of `total` (None: nobody knows how many)."""

    def __init__(self, what: str, total: int | None, settings: Settings) -> None:
        self._what = what
        self._total = total
        self._shown = is_terminal(sys.stderr) and settings.verbosity >= 0
        self._bar: rich.progress.Progress | None = None
        self._count = 0
        self._next_at = 0.0

    def advance(self, count: int) -> None:
        """So many more."""
        self._count += count
        if self._bar is not None and time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + _EVERY_SECONDS
            self._bar.update(self._bar.task_ids[0], completed=self._count, refresh=True)

    def say(self, what: str) -> None:
        """What is done now."""
        if self._bar is not None:
            self._bar.update(
                self._bar.task_ids[0], description=what, completed=self._count, refresh=True
            )

    def __enter__(self) -> Self:
        if self._shown:
            from rich.console import Console
            from rich.progress import Progress as Bar

            self._bar = Bar(console=Console(stderr=True), transient=True, auto_refresh=False)
            self._bar.add_task(self._what, total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
