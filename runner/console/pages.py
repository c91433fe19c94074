"""The lower line, the page of keys, and the page of one thing whole. Pure."""

import textwrap
from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.text import Text

from ..text import safe
from . import cells
from .scene import Scene
from .snapshot import Record
from .state import VIEWS

LABEL, WIDEST_LABEL = 14, 24
_AS_IS: Any = {"drop_whitespace": False, "replace_whitespace": False, "expand_tabs": False}
MOST_LINES = 400  # of one value
_KEYS = (
    ("1-5  Tab", "views: " + ", ".join(VIEWS.values())),
    ("↑ ↓  j k", "choose a line; Home, End, Page up and down"),
    ("Enter", "everything about what is chosen"),
    ("r", "requeue a dead task, or all dead ones of a type or queue"),
    ("d", "discard them for good"),
    ("p", "pause or resume a queue or type"),
    ("K", "kill the task of a worker, and cancel it"),
    ("space", "hold this view still, and go on"),
    ("s", "save a picture of it (SVG) in the working directory"),
    ("+  -", "look less, more often"),
    ("Esc", "choose nothing"),
)
_HINTS = {
    "host": "Enter details",
    "worker": "Enter details  K kill its task",
    "queue": "Enter details  r requeue  d discard  p pause",
    "type": "Enter details  r requeue  d discard  p pause",
    "dead": "Enter details  r requeue  d discard",
}


def footer(scene: Scene, width: int, now: float) -> list[Text]:
    """The question, else what was just said, else what can be typed."""
    state = scene.state
    if state.question is not None:
        asked = f" {cells.text(state.question.text)}  y / n "
        return [Text(part, "bold black on yellow") for part in chop_cells(asked, width)[:4]]
    if state.note is not None and now < state.note_until:
        return [Text(cells.fitted(f" {cells.text(state.note)}", width), "bold cyan")]
    if state.help or state.details is not None:
        return [Text(cells.fitted(" any key: back  ↑↓ scroll", width), "dim")]
    chosen = _HINTS[state.cursor[0]] + "  " if state.cursor is not None else "↑↓ choose  "
    leave = "q stop" if scene.owns_fleet else "q leave"
    hints = f" {chosen}1-5 views  space hold  ? help  {leave}"
    if cell_len(hints) > width:
        hints = f" ? help  {leave}"
    return [Text(cells.fitted(hints, width), "dim")]


def help_lines(scene: Scene, width: int) -> list[Text]:
    """The keys, each with what it does."""
    end = "stop the fleet; tasks in hand get their grace" if scene.owns_fleet else "leave"
    lines = [Text(""), Text(" Keys", "bold"), Text("")]
    for keys, what in (*_KEYS, ("q", end), ("?", "this page")):
        lines += _labelled(keys, what, width)
    return lines


def detail_lines(details: Record, width: int) -> list[Text]:
    """A title, and each field with its value, line by line."""
    lines = [Text(f" {cells.text(details['title'])}", "bold")]
    labels = [cells.text(label) for label, _ in details["lines"]]
    room = min(max([LABEL, *(cell_len(one) + 2 for one in labels)]), WIDEST_LABEL)
    for label, (_, value) in zip(labels, details["lines"], strict=True):
        lines += _labelled(label, value, width, room)
    return lines


def _labelled(label: str, value: object, width: int, room: int = LABEL) -> Iterator[Text]:
    indent = room if width >= 50 else 2
    pieces = list(_pieces(value, max(1, width - indent - 2)))
    if width < 50:
        yield Text(f" {label}", "bold cyan")
    for number, piece in enumerate(pieces):
        shown = label if width >= 50 and not number else ""
        yield Text.assemble((" " + cells.fitted(shown, indent), "cyan"), piece)


def _pieces(value: object, room: int) -> Iterator[str]:
    """The lines of a value, cut to the room."""
    for number, line in enumerate(str("-" if value is None else value).splitlines() or [""]):
        if number >= MOST_LINES:
            yield "…"
            return
        for piece in textwrap.wrap(safe(line, 20_000), room, **_AS_IS)[:MOST_LINES] or [""]:
            yield from chop_cells(piece, room)  # it counts characters, and some take two cells
