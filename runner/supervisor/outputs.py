"""What children print: read at once, cut into lines, and handed to the log with its task.

The parent never waits here: a line is at most LINE_LIMIT long, what is longer is cut into several, and
the log pipe drops what its reader is too slow for.
"""

import os

from ..logpipe import LogPipe
from .child import Child

LINE_LIMIT = 2000  # characters: a record of the log pipe is at most 4 KiB, the rest of it included


class Outputs:
    """Collects unfinished lines by child."""

    def __init__(self, log: LogPipe) -> None:
        self._log = log
        self._rest: dict[int, bytes] = {}

    def read(self, child: Child) -> bool:
        """Forward what the child has printed; False at the end of its output."""
        try:
            data = os.read(child.output, 65536)
        except BlockingIOError:
            return True
        if not data:
            self._flush(child)
            return False
        *lines, rest = (self._rest.pop(child.incarnation, b"") + data).split(b"\n")
        while len(rest) > LINE_LIMIT:
            lines.append(rest[:LINE_LIMIT])
            rest = rest[LINE_LIMIT:]
        if rest:
            self._rest[child.incarnation] = rest
        for line in lines:
            self._forward(child, line)
        return True

    def _flush(self, child: Child) -> None:
        if rest := self._rest.pop(child.incarnation, b""):
            self._forward(child, rest)

    def _forward(self, child: Child, line: bytes) -> None:
        text = line.decode("utf-8", "backslashreplace").rstrip("\r")
        for start in range(0, max(len(text), 1), LINE_LIMIT):
            self._log.info(
                "output",
                text[start : start + LINE_LIMIT],
                role=child.role.name,
                slot=child.slot if child.role.holds_leases else None,
                task=child.work.task if child.work else None,
            )
