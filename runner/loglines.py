"""The reading end of the log: records off the pipe, and the lines that they become."""

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from typing import Any

from .logpipe import LEVELS
from .text import one_line, redact, safe

Record = dict[str, Any]
NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
MOST_INDENT = 40
NAMES = frozenset({"level", "event", "role"})  # ours, whatever the secret is


class LogReader:
    """Cuts the log pipe into records, and leaves out what is below the level or was told before.

    `secret`, the database's password, is in none of them, whoever wrote it there.
    """

    def __init__(self, pipe: int, level: str, secret: str | None) -> None:
        os.set_blocking(pipe, False)
        self.pipe = pipe
        self._secret = secret
        self._least = LEVELS[level]
        self._rest = b""
        self._fatal: set[str] = set()

    def read(self, most: int = 1 << 20) -> Iterator[Record]:
        """The records that have come since, of at most so many bytes."""
        while most > 0:
            try:
                data = os.read(self.pipe, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                return
            most -= len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError):
                    record = json.loads(line)
                    if isinstance(record, dict) and self._is_wanted(record):
                        yield redacted(record, self._secret)

    def _is_wanted(self, record: Record) -> bool:
        level = LEVELS.get(str(record.get("level")), 20)
        return level >= self._least and not self._was_told(record)

    def _was_told(self, record: Record) -> bool:
        """Whether this is what another worker has just died of, too: one such line is enough."""
        if record.get("event") != "fatal":
            return False
        # But for a pid or an address in it, that is.
        text = NUMBERS.sub("#", str(record.get("message")))
        told = text in self._fatal
        self._fatal.add(text)
        return told


def parents_death(at: float) -> Record:
    """What is told by whoever writes the log when the parent ended without a word; `at` since 1970."""
    text = "has died, and its workers with it: their tasks are back when their leases have ended"
    return {
        "at": at,
        "level": "error",
        "event": "parent_died",
        "role": "supervisor",
        "message": text,
    }


def redacted(record: Record, secret: str | None) -> Record:
    """The record without a secret in its texts; the names that programs go by stay as they are."""
    if secret is None:
        return record
    return {
        name: redact(value, secret) if isinstance(value, str) and name not in NAMES else value
        for name, value in record.items()
    }


def as_json(record: Record) -> str:
    """The record as one JSON object, with the time as ISO 8601."""
    at = float(record.get("at", 0.0))
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}Z"
    rest = {key: value for key, value in record.items() if key != "at"}
    return json.dumps({"time": stamp, **rest})


def shown(value: object) -> str:
    """Anything as one line that does nothing to a terminal: handlers put what they like into it."""
    return safe(one_line(str(value)))


def as_text(record: Record) -> str:
    """The record as a line for people."""
    if record.get("event") == "fatal":
        hint = record.get("hint")
        lines = [
            f"runner: error: {message_of(record)}",
            *([f"hint: {shown(hint)}"] if hint else []),
        ]
        return "\n".join(lines)
    level = str(record.get("level", "info")).upper()
    return f"{clock_of(record)} {shown(level):<7} {speaker_of(record)}: {message_of(record)}"


def clock_of(record: Record) -> str:
    """The local time of day."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(float(record.get("at", 0.0))))
    except (TypeError, ValueError, OverflowError, OSError):
        return "--:--:--"


def speaker_of(record: Record) -> str:
    """Which process speaks, and of which task where a handler does."""
    role = record.get("role", "-")
    who = f"worker {record.get('slot')}" if role == "worker" else role
    if record.get("event") in ("output", "handler") and record.get("task") is not None:
        who = f"{who} task {record['task']}"
    return shown(who)


def message_of(record: Record) -> str:
    """What it says, and what is missing before it."""
    dropped = record.get("dropped_before")
    note = f" ({shown(dropped)} lines were dropped before this one)" if dropped else ""
    text = str(record.get("message", ""))
    return _indent(record, text) + shown(text) + note


def _indent(record: Record, text: str) -> str:
    """Of what was printed: in a traceback it tells the place from the code."""
    if record.get("event") != "output":
        return ""
    return " " * min(len(text) - len(text.lstrip(" ")), MOST_INDENT)
