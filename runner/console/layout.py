"""Sections of a frame, in the room that there is. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from . import cells


@dataclass(slots=True)
class Section:
    """A titled part of the body. `pointed`: which of its lines the cursor is on; `tail`: the last
    lines are the ones to show."""

    title: str
    lines: list[Text]
    head: Text | None = None
    pointed: int | None = None
    tail: bool = False

    @property
    def frame(self) -> int:
        """Lines beside its own."""
        return 1 + (self.head is not None)


def laid_out(sections: Sequence[Section], width: int, room: int, above: int) -> list[Text]:
    """The sections in the room there is: each gets its least first, then all grow alike."""
    kept = list(sections)
    while kept and sum(one.frame + min(1, len(one.lines)) for one in kept) > room:
        kept.pop(-2 if len(kept) > 2 else -1)
    free = room - sum(one.frame for one in kept)
    given = divide(free, [len(one.lines) for one in kept])
    lines: list[Text] = []
    for one, count in zip(kept, given, strict=True):
        part, which = _window(one, count, above if len(kept) == 1 else 0)
        lines.append(_rule(one.title + which, width))
        lines += ([one.head] if one.head is not None else []) + part
    return lines


def divide(room: int, wants: Sequence[int]) -> list[int]:
    """`room` lines: up to half of them for the first, the others share alike, and what they leave is
    the first's again."""
    if not wants:
        return []
    first = min(wants[0], room // 2)
    others = share(room - first, wants[1:])
    first += min(wants[0] - first, room - first - sum(others))
    return [first, *others]


def share(room: int, wants: Sequence[int]) -> list[int]:
    """`room` lines among those who want so many each: none gets more than it wants, and none has
    fewer than another unless it wants fewer."""
    given = [0] * len(wants)
    while room > 0 and any(g < w for g, w in zip(given, wants, strict=True)):
        hungry = [n for n, want in enumerate(wants) if given[n] < want]
        least = min(given[n] for n in hungry)
        for n in hungry:
            if given[n] == least and room > 0:
                given[n] += 1
                room -= 1
    return given


def _window(section: Section, count: int, above: int) -> tuple[list[Text], str]:
    """The lines that are shown, and which they are where some are not."""
    total = len(section.lines)
    if count >= total:
        return section.lines, ""
    if section.tail:
        first = max(0, total - count - above)
    else:
        first = max(0, min((section.pointed or 0) - count // 2, total - count))
    which = "" if section.tail and not above else f" ({first + 1}-{first + count} of {total})"
    return section.lines[first : first + count], which


def _rule(title: str, width: int) -> Text:
    made = Text("── ", "dim")
    made.append(cells.text(title), "bold")
    return made.append(" " + "─" * max(0, width - cell_len(made.plain) - 1), "dim")


def scrolled(lines: Sequence[Text], above: int, room: int) -> list[Text]:
    """The lines from so many on, as many as there is room for."""
    above = max(0, min(above, len(lines) - room))
    return list(lines[above : above + room])
