"""`runner enqueue --from`: many tasks from lines, all of them or none."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO

from ..enqueueing.envelope import Envelope, exactly, from_fields, seal
from ..errors import InvalidTask, UsageError
from ..payload import SIZE_LIMIT, loads_strict
from . import output
from .database import connection
from .progress import Progress
from .settings import Settings

LINE_LIMIT = 4 * SIZE_LIMIT  # bytes; white space and escapes included
_LIKE_JSON = re.compile(rb"\s*([\[{\"]|-?[0-9]|true|false|null|NaN|-?Infinity)")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Source:
    """Where the lines come from, and what each of them says."""

    path: str  # or -
    type: str | None
    field: str | None  # plain lines: the field of the params that a line is
    envelope: bool  # an object with the fields of `enqueue`
    defaults: dict[str, Any]

    def __post_init__(self) -> None:
        if self.field is not None and self.envelope:
            raise UsageError("--lines and --envelope exclude each other")
        if self.type is None and not self.envelope:
            raise UsageError("missing argument TYPE")

    def hint(self, line: bytes) -> str | None:
        """What was meant by lines that do not look like JSON."""
        if self.field is not None or self.envelope or _LIKE_JSON.match(line):
            return None
        return "did you mean --lines FIELD?"

    def task(self, line: bytes) -> Envelope:
        """The task of one line; InvalidTask when it cannot be one."""
        if self.field is not None:
            try:
                return seal(self.type, {self.field: line.decode()}, **self.defaults)
            except UnicodeDecodeError as error:
                raise InvalidTask(f"not UTF-8 at byte {error.start + 1}") from None
        value = loads_strict(line, limit=LINE_LIMIT if self.envelope else SIZE_LIMIT)
        if not self.envelope:
            return seal(self.type, exactly(value), **self.defaults)
        if not isinstance(value, dict):
            raise InvalidTask("no object with the fields of a task")
        if self.type is not None:
            value.setdefault("type", self.type)
        return from_fields(value, self.defaults)


def enqueue_lines(
    settings: Settings, source: Source, as_json: bool, connect_wait_seconds: float
) -> None:
    """Add a task for each line in one transaction, and print how many were added and skipped."""
    from ..enqueueing import send
    from ..enqueueing.batch import Batch
    from ..enqueueing.drivers import sync_driver

    batch = Batch()
    with ExitStack() as stack:
        file = _opened(source.path, stack)
        progress = stack.enter_context(Progress("reading", _size(file), settings))
        for task in _tasks(source, file, progress):
            batch.add(task)
        progress.say(f"adding {batch.size:,}")
        with connection(settings, "enqueue", connect_wait_seconds, statement_seconds=0) as conn:
            added = send(sync_driver(conn), batch)
    counts = {"added": added, "skipped": batch.size - added}
    if as_json:
        output.write_json(counts)
    else:
        output.write_rows(tuple(counts), [counts])


def _tasks(source: Source, file: BinaryIO, progress: Progress) -> Iterator[Envelope]:
    number = 0
    while line := file.readline(LINE_LIMIT + 2):
        number += 1
        progress.advance(len(line))
        if number == 1 and line.strip() != _BOM:  # with nothing behind it, it is no line of ours
            line = line.removeprefix(_BOM)
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            if len(text) > LINE_LIMIT:
                raise InvalidTask(f"longer than {LINE_LIMIT} bytes")
            if text.strip():
                yield source.task(text)
        except InvalidTask as error:
            told = str(error).replace(" at line 1, column", " at column")
            hint = error.hint or source.hint(text)
            raise InvalidTask(f"line {number:,}: {told}", hint=hint) from None


def _opened(path: str, stack: ExitStack) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return stack.enter_context(open(path, "rb"))
    except OSError as error:
        raise UsageError(f"--from: cannot read {path}: {error.strerror}") from None


def _size(file: BinaryIO) -> int | None:
    try:
        return os.fstat(file.fileno()).st_size or None
    except OSError:
        return None
