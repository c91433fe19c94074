"""The log role: reads records from the log pipe and writes them as lines; only it waits for a reader."""

import contextlib
import json
import os
import select
import sys
import time
from collections.abc import Iterable
from typing import Any

from ..logpipe import LEVELS
from ..seat import Ends, Seat
from ..text import one_line, safe
from ..wire import EventWriter, Kind

ALIVE_SECONDS = 5.0


class Log:
    """Writes to stderr in one of two formats, from a level on."""

    def __init__(self, pipe: int, form: str, level: str, seat: Seat, ends: Ends) -> None:
        self.pipe = pipe
        self.control = ends.control
        self.format = as_json if form == "json" else as_text
        self.level = LEVELS[level]
        self.events = EventWriter(ends.events, seat.incarnation)
        self._rest = b""
        self._fatal: set[str] = set()

    def run(self) -> int:
        """Write until the parent says stop or is gone, and then what is still in the pipe."""
        self.events.send(Kind.HELLO)
        os.set_blocking(self.pipe, False)
        stopping = False
        while not stopping:
            ready, _, _ = select.select([self.pipe, self.control], [], [], ALIVE_SECONDS)
            stopping = self.control in ready
            self.write(self.read())
            self.events.send(Kind.ALIVE)
        return 0

    def read(self) -> Iterable[dict[str, Any]]:
        """The records that have come since."""
        while True:
            try:
                data = os.read(self.pipe, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError):
                    record = json.loads(line)
                    if isinstance(record, dict):
                        yield record

    def write(self, records: Iterable[dict[str, Any]]) -> None:
        """One line a record. A closed stderr ends the log, not the fleet."""
        for record in records:
            if LEVELS.get(str(record.get("level")), 20) < self.level or self.told(record):
                continue
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(self.format(record) + "\n")
                sys.stderr.flush()

    def told(self, record: dict[str, Any]) -> bool:
        """Whether this is what another worker has just died of, too: one such line is enough."""
        if record.get("event") != "fatal":
            return False
        text = str(record.get("message"))
        told = text in self._fatal
        self._fatal.add(text)
        return told


def as_json(record: dict[str, Any]) -> str:
    """The record as one JSON object, with the time as ISO 8601."""
    at = float(record.pop("at", 0.0))
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}Z"
    return json.dumps({"time": stamp, **record})


def shown(value: object) -> str:
    """Anything as one line that does nothing to a terminal: handlers put what they like into it."""
    return safe(one_line(str(value)))


def as_text(record: dict[str, Any]) -> str:
    """The record as a line for people."""
    message = shown(record.get("message", ""))
    if record.get("event") == "fatal":
        hint = record.get("hint")
        lines = [f"runner: error: {message}", *([f"hint: {shown(hint)}"] if hint else [])]
        return "\n".join(lines)
    clock = time.strftime("%H:%M:%S", time.localtime(float(record.get("at", 0.0))))
    level = str(record.get("level", "info")).upper()
    role = record.get("role", "-")
    who = f"worker {record['slot']}" if role == "worker" else role
    if record.get("event") in ("output", "handler") and record.get("task") is not None:
        who = f"{who} task {record['task']}"
    dropped = record.get("dropped_before")
    note = f" ({dropped} lines were dropped before this one)" if dropped else ""
    return f"{clock} {level:<7} {shown(who)}: {message}{note}"
