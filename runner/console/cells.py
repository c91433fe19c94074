"""Values as short texts, fit for a terminal: every string from outside passes `safe` here. Pure."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from ..text import one_line, safe
from ..units import duration

LONGEST = 500  # characters of one value; no terminal shows more on a line
_BLOCKS = " ▏▎▍▌▋▊▉"
_SPARKS = "▁▂▃▄▅▆▇█"
_UNITS = ("B", "K", "M", "G", "T")
# What a terminal without UTF-8 shows instead, sign for sign.
_ASCII = str.maketrans("▁▂▃▄▅▆▇█▏▎▍▌▋▊▉─│·…▸●○✗↑↓–░⏸", "_.,-~=+#.::+++#-|.~>*o" + "x^v-.P")


def text(value: object) -> str:
    """Anything on one line that does nothing to a terminal."""
    return "" if value is None else safe(one_line(str(value)), LONGEST)


def seconds(value: object) -> str:
    """`250ms`, `4.2s`, `5m12s`; what is past, as below zero."""
    if not isinstance(value, int | float):
        return ""
    return f"-{duration(-value)}" if value < 0 else duration(value)


def until(value: object) -> str:
    """`4.2s`; what has come is `due`."""
    return "due" if isinstance(value, int | float) and value <= 0 else seconds(value)


def count(value: object) -> str:
    """`12,345`, `1.2M`; nothing stays nothing."""
    if not isinstance(value, int | float):
        return ""
    if value < 1_000_000:
        return f"{value:,.0f}"
    return f"{value / 1e6:,.1f}M" if value < 1e9 else f"{value / 1e9:,.1f}G"


def rate(value: object) -> str:
    """`0`, `0.3`, `12.4`, `1,204`: a second."""
    if not isinstance(value, int | float):
        return ""
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.1f}"


def size(value: object) -> str:
    """`512K`, `12M`, `1.2G`."""
    if not isinstance(value, int) or value <= 0:
        return ""
    amount, unit = float(value), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return (
        f"{amount:.1f}{_UNITS[unit]}" if amount < 10 and unit > 1 else f"{amount:.0f}{_UNITS[unit]}"
    )


def bar(progress: object, width: int) -> str:
    """How far a task is, as a bar and in per cent; whatever numbers its handler gave."""
    if not isinstance(progress, list | tuple) or len(progress) != 2:
        return ""
    done, total = progress
    if not isinstance(done, int | float) or not isinstance(total, int | float) or total <= 0:
        return f"{text(done)}"[:width]
    share = max(0.0, min(done / total, 1.0))
    room = max(1, width - 5)
    eighths = round(share * room * 8)
    whole, part = divmod(eighths, 8)
    drawn = "█" * whole + (_BLOCKS[part] if part else "")
    return f"{drawn:░<{room}} {share:4.0%}"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last values, one sign each, against the largest of them."""
    if width <= 0:
        return ""
    some = values[-width:]
    most = max(some, default=0.0) or 1.0
    return "".join(_SPARKS[min(7, round(max(0.0, one) / most * 7))] for one in some)


def ascii_only(line: str) -> str:
    """The same number of cells without anything beyond ASCII."""
    line = line.translate(_ASCII)
    if line.isascii():
        return line
    return "".join(one if one.isascii() else "?" * cell_len(one) for one in line)


def fitted(value: str, width: int, right: bool = False) -> str:
    """Exactly so many cells; what is cut ends in a mark."""
    long = cell_len(value)
    if long > width:
        return set_cell_size(value, width - 1) + "…" if width > 1 else set_cell_size(value, width)
    blank = " " * (width - long)
    return blank + value if right else value + blank
