"""What a handler prints, line by line into the log, each line with the task that printed it.

Only Python's own streams pass here. What C code and programs write to descriptors 1 and 2 goes to the
parent, which can tell the worker but only guess the task.
"""

import io
from typing import BinaryIO

from ..logpipe import LogPipe

LINE_LIMIT = 2000


class Printed(io.TextIOBase):
    """Takes the place of sys.stdout or sys.stderr in a worker. Never blocks, never raises."""

    def __init__(self, log: LogPipe, original: BinaryIO | None) -> None:
        self._log = log
        self._rest = ""
        self._original = original
        self.task: int | None = None

    @property
    def buffer(self) -> BinaryIO | None:
        """For those who write bytes: straight to the descriptor."""
        return self._original

    def fileno(self) -> int:
        """The descriptor below, for programs that are started."""
        if self._original is None:
            raise OSError("no descriptor")
        return self._original.fileno()

    def writable(self) -> bool:
        """Always."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """What is shown can hold anything."""
        return "utf-8"

    def write(self, text: str) -> int:
        """Log the lines that are whole; a long one is cut into several."""
        *lines, self._rest = (self._rest + text).split("\n")
        while len(self._rest) > LINE_LIMIT:
            lines.append(self._rest[:LINE_LIMIT])
            self._rest = self._rest[LINE_LIMIT:]
        for line in lines:
            self._emit(line)
        return len(text)

    def end(self) -> None:
        """The task is over: what it left without a newline is a line, too."""
        if self._rest:
            self._emit(self._rest)
        self._rest = ""
        self.task = None

    def _emit(self, line: str) -> None:
        for start in range(0, max(len(line), 1), LINE_LIMIT):
            self._log.info("output", line[start : start + LINE_LIMIT], task=self.task)
