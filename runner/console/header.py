"""The upper lines: whose view it is, how much there is, and how fast it goes. Pure."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from ..text import plural
from . import cells
from .scene import Scene
from .snapshot import speeds
from .state import VIEWS

LONGEST_SPARK = 60
SEPARATOR = "  "


def title_bar(scene: Scene, width: int, now: float, clock: str) -> Text:
    """The bar: what is watched, for how long it has run, and the time."""
    left = " runner"
    for part in _whose(scene, now):
        if cell_len(left) + cell_len(part) + 3 + len(clock) + 2 <= width:
            left += f" · {part}"
    state = scene.state
    right = [f"every {state.interval:g}s"] if width >= 70 else []
    if width >= 90:
        right.insert(0, f"{state.view} {VIEWS[state.view]}")
    end = " · ".join([*right, clock]) + " "
    while right and cell_len(left) + cell_len(end) + 1 > width:
        right.pop(0)
        end = " · ".join([*right, clock]) + " "
    room = width - cell_len(left)
    line = left + (cells.fitted(end, room, right=True) if room > cell_len(end) else " " * room)
    made = Text(line, "bold white on blue")
    if state.paused:
        made = Text(cells.fitted(f" PAUSED, space goes on ·{line}", width), "bold black on yellow")
    return made


def _whose(scene: Scene, now: float) -> list[str]:
    parts = [cells.text(scene.database)] if scene.database else []
    workers = [one for one in scene.workers(now) if one["state"] != "ended"]
    hosts = len({one["host"] for one in workers})
    who = plural(len(workers), "worker")
    parts.append(f"{who} on {hosts} hosts" if hosts > 1 else who)
    if scene.fleet is not None:
        parts.append(f"up {cells.seconds(now - scene.fleet['started_at'])}")
    return parts


def counts(scene: Scene, now: float) -> list[Text]:
    """How much there is of each."""
    if scene.snapshot is None:
        return [Text("asking the database …", "dim")]
    status = scene.snapshot.status
    styles = {"ready": "bold", "running": "bold green"}
    made = []
    for name in ("ready", "scheduled", "running", "dead", "unknown"):
        number = status[name]
        bad = name in ("dead", "unknown") and number
        style = "bold red" if bad else styles.get(name, "") if number else "dim"
        made.append(Text.assemble((f"{name} ", "dim"), (cells.count(number), style)))
    oldest = scene.in_time(status, now)["oldest_ready_seconds"]
    if oldest is not None:
        made.append(Text.assemble(("oldest ", "dim"), (cells.seconds(oldest), "")))
    return made


def wrapped(parts: Sequence[Text], width: int) -> list[Text]:
    """The parts in as many lines as they need."""
    lines = [Text(" ")]
    for part in parts:
        used = cell_len(lines[-1].plain)
        if used > 1 and used + len(SEPARATOR) + cell_len(part.plain) > width:
            lines.append(Text(" "))
            used = 1
        lines[-1].append(SEPARATOR if used > 1 else "")
        lines[-1].append_text(part)
    return lines


def speed(scene: Scene, width: int, now: float) -> list[Text]:
    """Done and failed a second, with how it was before."""
    status = scene.snapshot.status if scene.snapshot else {}
    done, failed = speeds(status, scene.meter, now)
    if done is None or failed is None:
        return wrapped([Text("done …/s", "dim")], width)
    told = [
        Text.assemble(("done ", "dim"), (f"{cells.rate(done)}/s", "bold green")),
        Text.assemble(
            ("failed ", "dim"), (f"{cells.rate(failed)}/s", "bold red" if failed else "dim")
        ),
    ]
    lines = wrapped(told, width)
    if len(lines) > 1:
        return lines
    room = min(LONGEST_SPARK, width - cell_len(lines[0].plain) - 3)
    history = [one[0] for one in scene.meter.history(room)]
    if room >= 8 and history:
        lines[0].append(SEPARATOR).append(cells.sparkline(history, room), "green")
    return lines
