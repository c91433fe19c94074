"""Tasks on stdout. Params are passed through as the database has them: what jsonb can hold, 1e400 or a
number of 5,000 digits, is more than Python's json takes."""

import itertools
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..terminal import is_terminal
from ..text import safe
from . import output, problems
from .settings import Settings

Record = Mapping[str, Any]
COLUMNS = (
    *("id", "type", "queue", "state", "priority", "attempt", "max_attempts", "run_at"),
    *("created_at", "key", "worker", "last_error", "cause"),
)
RAW = ("params", "sample")  # JSON already
TEXTS = ("post_mortem",)  # of several lines
_NOT_PLAIN = re.compile(r"[^\x20-\x7e]")


def write_tasks(records: Iterable[Record], limit: int, as_json: bool, settings: Settings) -> None:
    """One record a line, `limit` of them (0: all); tells when there are more."""
    shown = _limited(records, limit, settings)
    if as_json:
        write_json_lines(shown)
    elif is_terminal(sys.stdout):
        from . import tables

        tables.write(tables.tasks(tables.now()), [dict(one) for one in shown])
    else:
        output.write_rows(COLUMNS, shown)


def write_whole(record: Record, as_json: bool) -> None:
    """One record with all its fields, one a line; on a terminal in two columns."""
    if as_json:
        write_json_lines([record])
        return
    room = max(map(len, record)) + 2
    person = is_terminal(sys.stdout)
    for name, value in record.items():
        shown = (
            ["-"] if value is None else str(value).splitlines() if name in TEXTS else [str(value)]
        )
        label, below = (f"{name:<{room}}", " " * room) if person else (f"{name}\t", "\t")
        output.write(label + f"\n{below}".join(map(safe, shown)) + "\n")


def write_json_lines(records: Iterable[Record]) -> None:
    """One object a line, with what is JSON already as it is."""
    for record in records:
        if not any(name in record for name in RAW):
            output.write_json(record)
            continue
        fields = (f"{json.dumps(name)}: {_as_json(name, record[name])}" for name in record)
        output.write("{" + ", ".join(fields) + "}\n")


def _limited(records: Iterable[Record], limit: int, settings: Settings) -> Iterator[Record]:
    if not limit:
        yield from records
        return
    found = iter(records)
    yield from itertools.islice(found, limit)
    if next(found, None) is not None:
        problems.notice(f"there are more than {limit}: --limit 0 shows all", settings)


def _as_json(name: str, value: object) -> str:
    if name in RAW and isinstance(value, str):
        return _NOT_PLAIN.sub(_escaped, value)
    return json.dumps(value)


def _escaped(found: "re.Match[str]") -> str:
    # Within JSON such a character can only be part of a string.
    text = json.dumps(found[0])[1:-1]
    return text if text != "\x7f" else "\\u007f"
