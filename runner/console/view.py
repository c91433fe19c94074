"""The frame: `render` makes one renderable of a scene, for any width and height. Pure: the clock is an
argument, and nothing here raises, whatever the strings."""

import time
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from ..loglines import clock_of, message_of, speaker_of
from . import cells, columns
from .alerts import alerts
from .header import counts, speed, title_bar, wrapped
from .layout import Section, laid_out, scrolled
from .pages import detail_lines, footer, help_lines
from .scene import Scene
from .snapshot import Record
from .state import Row, at_cursor
from .tables import Column, fit, head, line

MOST_ALERTS = 4
TINY = 8  # lines below which there is no room for tables
_LEVELS = {"error": "bold red", "critical": "bold red", "warning": "yellow", "debug": "dim"}


def render(
    scene: Scene, width: int, height: int, now: float, clock: float, *, unicode: bool = True
) -> Text:
    """Exactly `height` lines of at most `width` cells. `now` is local, `clock` seconds since 1970."""
    width, height = max(width, 1), max(height, 1)
    top = _top(scene, width, height, now, clock)
    bottom = footer(scene, width, now)
    room = height - len(top) - len(bottom)
    body = _body(scene, width, max(room, 0), now)
    lines = [*top, *body, *[Text("")] * max(0, room - len(body))][: max(0, height - len(bottom))]
    return _joined([*lines, *bottom][:height], width, unicode)


def _joined(lines: Sequence[Text], width: int, unicode: bool) -> Text:
    whole = Text(no_wrap=True, overflow="crop", end="")
    for number, one in enumerate(lines):
        if cell_len(one.plain) > width:
            one.truncate(width, overflow="ellipsis")
        if not unicode:
            one.plain = cells.ascii_only(one.plain)
        whole.append("\n" if number else "")
        whole.append_text(one)
    return whole


def _top(scene: Scene, width: int, height: int, now: float, clock: float) -> list[Text]:
    at = time.strftime("%H:%M:%S", time.localtime(clock))
    lines = [title_bar(scene, width, now, at)]
    lines += wrapped(counts(scene, now), width)
    if height > TINY:
        lines += speed(scene, width, now)
    told = alerts(scene, now)
    shown = told[: min(MOST_ALERTS, 1 + height // 10)]
    more = f" (and {len(told) - len(shown)} more)" if len(told) > len(shown) else ""
    for number, one in enumerate(shown):
        also = more if number == len(shown) - 1 else ""
        room = max(1, width - 2 - len(also))
        lines.append(Text(f"! {cells.fitted(one.text, room)}{also}".rstrip(), one.style))
    return lines


def _body(scene: Scene, width: int, room: int, now: float) -> list[Text]:
    state = scene.state
    if state.help:
        return scrolled(help_lines(scene, width), state.scroll, room)
    if state.details is not None:
        return scrolled(detail_lines(state.details, width), state.scroll, room)
    return laid_out(list(_sections(scene, width, now)), width, room, state.scroll)


def _sections(scene: Scene, width: int, now: float) -> Iterator[Section]:
    view = scene.state.view
    status = scene.snapshot.status if scene.snapshot else {}
    rows = scene.rows(now)
    at = at_cursor(scene.state, rows)
    pointed = rows[at] if at is not None else None
    hosts = [row for row in rows if row.kind == "host"]
    if hosts:
        yield _table("hosts", columns.HOSTS, hosts, pointed, width)
    if view in (1, 2):
        workers = [row for row in rows if row.kind == "worker"]
        yield _table("workers", _worker_columns(scene, now), workers, pointed, width)
    if view == 3:
        queues = [row for row in rows if row.kind == "queue"]
        yield _table("queues", columns.QUEUES, queues, pointed, width)
    if view in (1, 3) and (view == 3 or status.get("types")):
        types = [row for row in rows if row.kind == "type"]
        yield _table("types", columns.TYPES, types, pointed, width)
    dead = [row for row in rows if row.kind == "dead"]
    if view == 4 or dead:
        title = f"dead: the last of {cells.count(status.get('dead', 0))}" if dead else "dead: none"
        yield _table(title, columns.DEAD, dead, pointed, width)
    failing = scene.snapshot.failing if scene.snapshot else ()
    if view in (1, 4) and failing:
        some = [Row("type", None, scene.in_time(one, now)) for one in failing]
        yield _table("failing, and tried again", columns.FAILING, some, None, width)
    if scene.log or view == 5:
        yield Section("log", [_log_line(one, width) for one in scene.log], tail=True)


def _worker_columns(scene: Scene, now: float) -> Sequence[Column]:
    """The host only where there is more than one."""
    hosts = {one["host"] for one in scene.workers(now)}
    return [one for one in columns.WORKERS if one.name != "HOST" or len(hosts) > 1]


def _table(
    title: str, which: Sequence[Column], rows: Sequence[Row], pointed: Row | None, width: int
) -> Section:
    records = [row.record for row in rows]
    shown = fit(which, records, width)
    lines = [line(shown, one) for one in records]
    at = next((n for n, row in enumerate(rows) if row is pointed), None)
    if at is not None:
        lines[at] = Text(cells.fitted(lines[at].plain, width), "reverse")
    return Section(title, lines, head(shown) if rows else None, at)


def _log_line(record: Record, width: int) -> Text:
    style = _LEVELS.get(str(record.get("level")), "")
    made = Text()
    if width >= 60:
        made.append(f"{clock_of(record)} ", "dim")
    made.append(f"{speaker_of(record)}: ", "cyan" if width >= 40 else "dim")
    made.append(message_of(record)[: 4 * width], style)
    return made
