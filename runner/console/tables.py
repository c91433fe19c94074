"""Tables that drop columns by width: which columns there are, which are shown, and their lines. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from . import cells

Record = dict[str, Any]
GAP = 2


def _no_style(record: Record) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `rank`: the largest is dropped first. `least`: cells below which one that may
    shrink (`least` < what its values need) is dropped instead. `quiet`: dropped when no row has one."""

    name: str
    show: Callable[[Record], str]
    rank: int
    right: bool = False
    least: int | None = None
    most: int = 60
    quiet: bool = False
    style: Callable[[Record], str] = _no_style

    def wants(self, records: Sequence[Record]) -> int:
        """Cells that its title and values need."""
        longest = max((cell_len(self.show(one)) for one in records), default=0)
        return min(self.most, max(cell_len(self.name), longest))


def fit(columns: Sequence[Column], records: Sequence[Record], width: int) -> dict[Column, int]:
    """The columns that are shown in so many cells, with the cells of each."""
    chosen = [one for one in columns if not one.quiet or any(map(one.show, records))]
    wanted = {one: one.wants(records) for one in chosen}
    while chosen:
        needed = sum(_smallest(one, wanted[one]) for one in chosen) + GAP * (len(chosen) - 1)
        if needed <= width or len(chosen) == 1:
            return _spread(chosen, wanted, width)
        chosen.remove(max(chosen, key=lambda one: one.rank))
    return {}


def _smallest(column: Column, wanted: int) -> int:
    return wanted if column.least is None else min(wanted, column.least)


def _spread(chosen: Sequence[Column], wanted: dict[Column, int], width: int) -> dict[Column, int]:
    """Each what it wants; the room that is missing is taken from those that may shrink."""
    cells_of = {one: _smallest(one, wanted[one]) for one in chosen}
    left = width - GAP * (len(chosen) - 1) - sum(cells_of.values())
    for one in sorted(chosen, key=lambda one: one.rank):
        more = max(0, min(wanted[one] - cells_of[one], left))
        cells_of[one] += more
        left -= more
    return {one: min(cells, width) for one, cells in cells_of.items()}


def head(shown: dict[Column, int], style: str = "dim bold") -> Text:
    """The line of titles."""
    return Text((" " * GAP).join(cells.fitted(c.name, w, c.right) for c, w in shown.items()), style)


def line(shown: dict[Column, int], record: Record) -> Text:
    """The line of one record."""
    made = Text()
    for number, (column, width) in enumerate(shown.items()):
        if number:
            made.append(" " * GAP)
        made.append(cells.fitted(column.show(record), width, column.right), column.style(record))
    return made
