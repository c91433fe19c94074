"""The writing end of the log: records as JSON lines that never block and are never torn.

Every process of a fleet writes to one pipe, the log role reads it. A record of at most PIPE_BUF bytes
is written whole or not at all; when the pipe is full because the reader is slow or stopped, it is
dropped and counted, so that nothing that reads slowly holds up a handler or a lease.
"""

import json
import logging
import os
import time
from typing import Any

LINE_MAX = 4096  # PIPE_BUF on Linux: above it a write is not atomic


class LogPipe:
    """Emits records with the fields of this process added to each."""

    def __init__(self, fd: int, **common: Any) -> None:
        self._fd = fd
        self._common = common
        self._dropped = 0

    def emit(self, level: str, event: str, message: str, /, **fields: Any) -> None:
        """Write one record: `level` debug … error, `event` a stable name, `message` for people."""
        record = {"at": time.time(), "level": level, "event": event, "message": message}
        record |= self._common | {key: value for key, value in fields.items() if value is not None}
        if self._dropped:
            record["dropped_before"] = self._dropped
        try:
            os.write(self._fd, _line(record))
        except BlockingIOError:
            self._dropped += 1
        except OSError:
            pass  # nobody reads any more: the fleet is on its way out
        else:
            self._dropped = 0

    def debug(self, event: str, message: str, **fields: Any) -> None:
        """A record for the curious."""
        self.emit("debug", event, message, **fields)

    def info(self, event: str, message: str, **fields: Any) -> None:
        """A record of the ordinary."""
        self.emit("info", event, message, **fields)

    def warning(self, event: str, message: str, **fields: Any) -> None:
        """A record of what may need a person."""
        self.emit("warning", event, message, **fields)

    def error(self, event: str, message: str, **fields: Any) -> None:
        """A record of what needs a person."""
        self.emit("error", event, message, **fields)


def _line(record: dict[str, Any]) -> bytes:
    line = json.dumps(record, default=str).encode() + b"\n"  # ASCII: surrogates are escaped
    if len(line) <= LINE_MAX:
        return line
    # Only text can be long: halve the longest until it fits.
    short = dict(record)
    while len(line) > LINE_MAX:
        key = max(short, key=lambda k: len(str(short[k])))
        text = str(short[key])
        short[key] = text[: len(text) // 2] + "…"
        line = json.dumps(short, default=str).encode() + b"\n"
    return line


class PipeHandler(logging.Handler):
    """Sends what handlers say through `task.log` to the log pipe."""

    def __init__(self, pipe: LogPipe) -> None:
        super().__init__()
        self._pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record with its task's fields; never raises."""
        fields = {key: getattr(record, key, None) for key in ("task", "type", "slot", "attempt")}
        try:
            message = record.getMessage()
        except Exception:
            message = str(record.msg)
        self._pipe.emit(record.levelname.lower(), "handler", message, **fields)
