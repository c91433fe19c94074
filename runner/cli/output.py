"""What goes to stdout: a table on a terminal, TSV with a header elsewhere, JSON when asked for."""

import contextlib
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

from ..errors import RunnerError
from ..terminal import is_terminal, speaks_unicode
from ..text import safe
from ..units import duration

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

Record = Mapping[str, Any]

WIDEST = 100_000
_UNITS = ("B", "kB", "MB", "GB", "TB")


def prepare_streams() -> None:
    """Have all three, and let no character that they cannot write end a command.

    A closed one is opened on nothing: else the next socket would get its number, and whoever prints
    would write into it.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    for stream in (sys.stdout, sys.stderr):
        if (change := getattr(stream, "reconfigure", None)) is not None:
            change(errors="backslashreplace")


def write(text: str) -> None:
    """Write to stdout. A reader that is gone is no error; a full disk is."""
    with _told():
        sys.stdout.write(text)


def flush() -> None:
    """Everything written is out, or the reader is gone."""
    with _told():
        sys.stdout.flush()


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _let_go_of_stdout()
    except OSError as error:
        _let_go_of_stdout()
        raise RunnerError(f"cannot write to standard output: {error.strerror}") from None


def _let_go_of_stdout() -> None:
    _let_go_of(sys.stdout)


def _let_go_of(stream: TextIO) -> None:
    """What is still buffered must go somewhere, else the interpreter complains at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def settle_streams() -> None:
    """At the very end: a stream that cannot be written must not change the exit code (Python would
    make it 120)."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _let_go_of(stream)


def write_json(record: Record) -> None:
    """One object on one line; ASCII, so that any stream can take it."""
    write(json.dumps(record, default=_as_json, allow_nan=False) + "\n")


def write_json_lines(records: Iterable[Record]) -> None:
    """One object a line."""
    for record in records:
        write_json(record)


def write_rows(
    names: Sequence[str], records: Iterable[Record], *, title: str | None = None
) -> None:
    """Records under their names; `…_seconds` and `rss` are made readable on a terminal only."""
    if is_terminal(sys.stdout):
        _write_table(names, list(records), title)
    else:
        coming = iter(records)
        first = list(itertools.islice(coming, 1))  # no header before an error
        write("\t".join(names) + "\n")
        for record in itertools.chain(first, coming):
            write("\t".join(_as_tsv(record.get(name)) for name in names) + "\n")


def width() -> int:
    """The cells of a line of stdout."""
    from rich.console import Console

    return Console(file=sys.stdout).width


def write_lines(lines: "Iterable[Text]") -> None:
    """Lines with their styles, as they are, to a terminal."""
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    with _told():
        for line in lines:
            console.print(line, soft_wrap=True)


def _write_table(names: Sequence[str], records: Sequence[Record], title: str | None) -> None:
    """As a table if it fits; without the columns that hold nothing; else stacked, a line a field."""
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    table = _table(names, records, title)
    room = console.options.update(max_width=WIDEST)  # else no table ever measures too wide
    if console.measure(table, options=room).maximum > console.width:
        names = [name for name in names if any(record.get(name) is not None for record in records)]
        table = _table(names, records, title)
    with _told():
        if console.measure(table, options=room).maximum <= console.width:
            console.print(table)
        else:
            _write_stacked(names, records, title)


def _write_stacked(names: Sequence[str], records: Sequence[Record], title: str | None) -> None:
    width = max((len(_label(name)) for name in names), default=0)
    if title:
        write(safe(title) + "\n")
    for record in records:
        for name in names:
            write(f"  {_label(name):<{width}}  {_as_shown(name, record.get(name))}\n")
        write("\n")


def _label(name: str) -> str:
    return name.removesuffix("_seconds").replace("_", " ")


def _table(names: Sequence[str], records: Sequence[Record], title: str | None) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    rule = SIMPLE_HEAD if speaks_unicode() else None
    table = Table(title=title and Text(safe(title)), box=rule, title_justify="left")
    for name in names:
        numbers = all(isinstance(record.get(name), int | float | None) for record in records)
        table.add_column(Text(_label(name)), justify="right" if numbers else "left", no_wrap=True)
    for record in records:
        table.add_row(*(Text(_as_shown(name, record.get(name))) for name in names))
    return table


def _as_json(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _as_tsv(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return safe(value.isoformat() if isinstance(value, datetime) else str(value))


def _as_shown(name: str, value: object) -> str:
    if value is None:
        return "-"
    if name.endswith("_seconds") and isinstance(value, int | float):
        return duration(value)
    if name == "rss" and isinstance(value, int):
        return size(value)
    return _as_tsv(value)


def size(count: int) -> str:
    """`512 B`, `12.3 MB`."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{count} B"
