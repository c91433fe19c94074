"""The writing end of the log: records as JSON lines that never block and are never torn.

Every process of a fleet writes to one pipe, the log role reads it. A record of at most PIPE_BUF bytes
is written whole or not at all; when the pipe is full because the reader is slow or stopped, it is
dropped and counted, so that nothing that reads slowly holds up a handler or a lease.
"""

import json
import logging
import os
import time
import traceback
from typing import Any

from .text import error_text

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
LINE_MAX = 4096  # PIPE_BUF on Linux: above it a write is not atomic
_KEY_MAX = 64  # characters of a field's name, where a record is too long
_SHORT = 8  # a text that is not worth shortening
_FIRST_FIELDS = 4  # at, level, event, message
_NUMBER_MAX = 1e18


class LogPipe:
    """Emits records with the fields of this process added to each."""

    def __init__(self, fd: int, level: str = "debug", **common: Any) -> None:
        self._fd = fd
        self._least = LEVELS[level]
        self._common = common
        self._dropped = 0

    def emit(self, level: str, event: str, message: str, /, **fields: Any) -> None:
        """Write one record: `level` debug … error, `event` a stable name, `message` for people."""
        if LEVELS.get(level, 20) < self._least:
            return
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

    def tells(self, level: str) -> bool:
        """Whether a record of this level would be written at all."""
        return LEVELS[level] >= self._least

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
    try:
        line = json.dumps(record, default=str, allow_nan=False).encode() + b"\n"
    except Exception:  # a value without JSON form, or whose __str__ raises
        pass
    else:
        if len(line) <= LINE_MAX:
            return line  # ASCII: surrogates are escaped
    return _shortened({key[:_KEY_MAX]: _plain(value) for key, value in record.items()})


def _shortened(record: dict[str, Any]) -> bytes:
    """The record with its longest texts halved, and then its last fields left out, until it fits."""
    while len(line := json.dumps(record).encode() + b"\n") > LINE_MAX:
        key = max(record, key=lambda name: len(str(record[name])))
        text = str(record[key])
        if len(text) > _SHORT:
            record[key] = text[: len(text) // 2] + "…"
        else:
            record = dict(list(record.items())[: max(_FIRST_FIELDS, len(record) // 2)])
    return line


def _plain(value: Any) -> Any:
    """Small numbers as they are, everything else as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and abs(value) < _NUMBER_MAX:
        return value
    try:
        return str(value)[:LINE_MAX]
    except Exception:
        return f"({type(value).__name__[:_KEY_MAX]})"


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
        except Exception:  # arguments that do not fit, or a __str__ that raises
            message = record.msg if isinstance(record.msg, str) else "(a message without text)"
        if record.exc_info and (error := record.exc_info[1]) is not None:
            message = f"{message}: {error_text(error)}"
            fields["traceback"] = "".join(traceback.format_tb(error.__traceback__))
        self._pipe.emit(record.levelname.lower(), "handler", message, **fields)
