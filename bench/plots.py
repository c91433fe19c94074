"""Plots as SVG, by hand: a few lines over two axes need no library."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from bench.report import Outcome, number

Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT = 720, 420
MOST_MARKS = 8
LEFT, RIGHT, TOP, BOTTOM = 90, 30, 50, 90
COLOURS = ("#1f5fa8", "#c4552d", "#3b7d3a", "#7a4a9e")
STYLE = "font-family:sans-serif;font-size:13px;fill:#222"


@dataclass(frozen=True)
class Axis:
    """One direction of a plot: what it says, and how values become pixels."""

    title: str
    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False
    marks: tuple[float, ...] = ()  # where the ticks are, in place of round values

    def at(self, value: float) -> float:
        """The pixel of a value."""
        low, high, value = (self._scale(each) for each in (self.low, self.high, value))
        return self.start + (value - low) / ((high - low) or 1) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """The marks, else round values: powers of ten, or about six steps."""
        if self.marks:
            return list(self.marks)
        if self.logarithmic:
            exponents = range(
                math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1
            )
            return [10.0**each for each in exponents if self.low <= 10.0**each <= self.high]
        rough = (self.high - self.low) / 6 or 1
        unit = 10 ** math.floor(math.log10(rough))
        step = next(unit * each for each in (1, 2, 2.5, 5, 10) if unit * each >= rough)
        first = math.ceil(self.low / step)
        return [step * each for each in range(first, math.floor(self.high / step) + 1)]

    def _scale(self, value: float) -> float:
        return math.log10(max(value, self.low)) if self.logarithmic else value


def lines(
    title: str, x_title: str, y_title: str, series: dict[str, Points],
    *, log_x: bool = False, log_y: bool = False,
) -> str:  # fmt: skip
    """A line with marks for each series; linear axes begin at 0 in y."""
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    marks = tuple(sorted(set(xs)))
    x_axis = Axis(
        x_title, min(xs), max(xs), LEFT, right, log_x, marks if len(marks) <= MOST_MARKS else ()
    )
    low, high = (_decade(min(ys), math.floor), _decade(max(ys), math.ceil))
    y_axis = Axis(
        y_title, low if log_y else 0, high if log_y else max(ys) * 1.1, bottom, TOP, log_y
    )
    parts = [_frame(title, x_axis, y_axis)]
    for index, (name, points) in enumerate(series.items()):
        parts.append(_series(name, points, x_axis, y_axis, index))
    return _document(parts)


def write(directory: Path, outcomes: dict[str, Outcome]) -> list[Path]:
    """Every plot that the workloads of this run have the figures for."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, plot in PLOTS.items():
        if text := plot({key: each.details for key, each in outcomes.items()}):
            path = directory / f"{name}.svg"
            path.write_text(text, "utf-8")
            written.append(path)
    return written


def _backlog(details: dict[str, dict[str, Any]]) -> str | None:
    names = {"plain": "claim", "classes": "claim, three classes",
             "naive": "order by case …, random()"}  # fmt: skip
    series: dict[str, Points] = {}
    for cost in details.get("backlog", {}).get("claims", []):
        value = cost.get("milliseconds_a_task", cost["milliseconds"])
        points = dict(series.get(names[cost["kind"]], ()))
        series[names[cost["kind"]]] = sorted((points | {cost["level"]: value}).items())
    if not series:
        return None
    return lines(
        "Claim cost against backlog", "tasks waiting", "ms in the server, per task", series,
        log_x=True, log_y=True,
    )  # fmt: skip


def _processes(details: dict[str, dict[str, Any]]) -> str | None:
    points = details.get("procs", {}).get("points")
    if not points:
        return None
    return lines("Throughput against processes", "workers", "no-op tasks/s", {"": points})


def _pinned(details: dict[str, dict[str, Any]]) -> str | None:
    points = details.get("pinned", {}).get("series")
    if not points:
        return None
    title = "Drain while another session holds an old snapshot"
    return lines(title, "tasks done", "tasks/s", {"": points})


PLOTS: dict[str, Callable[[dict[str, dict[str, Any]]], str | None]] = {
    "claim-cost": _backlog,
    "processes": _processes,
    "pinned": _pinned,
}


def _decade(value: float, rounded: Callable[[float], int]) -> float:
    return 10.0 ** rounded(math.log10(value)) if value > 0 else 1e-3


def _frame(title: str, x_axis: Axis, y_axis: Axis) -> str:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [_text(WIDTH / 2, 26, title, "middle", "font-size:16px;font-weight:bold")]
    for value in x_axis.ticks():
        x = x_axis.at(value)
        parts.append(_line(x, bottom, x, bottom + 5, "#222"))
        parts.append(_text(x, bottom + 20, _tick(value), "middle"))
    for value in y_axis.ticks():
        y = y_axis.at(value)
        parts.append(_line(LEFT, y, right, y, "#ddd"))
        parts.append(_text(LEFT - 8, y + 4, _tick(value), "end"))
    parts.append(_line(LEFT, bottom, right, bottom, "#222"))
    parts.append(_line(LEFT, TOP, LEFT, bottom, "#222"))
    parts.append(_text((LEFT + right) / 2, bottom + 42, x_axis.title, "middle"))
    turned = f'<g transform="translate(20 {(TOP + bottom) / 2:.0f}) rotate(-90)">'
    parts.append(f"{turned}{_text(0, 0, y_axis.title, 'middle')}</g>")
    return "\n".join(parts)


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else number(value)


def _series(name: str, points: Points, x_axis: Axis, y_axis: Axis, index: int) -> str:
    colour = COLOURS[index % len(COLOURS)]
    at = [(x_axis.at(x), y_axis.at(y)) for x, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at]
    if name:
        x, y = LEFT + 210 * index, HEIGHT - 18
        parts.append(_line(x, y - 4, x + 18, y - 4, colour, 3))
        parts.append(_text(x + 24, y, name, "start", "font-size:11px"))
    return "\n".join(parts)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: int = 1) -> str:
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {place} stroke="{colour}" stroke-width="{width}"/>'


def _text(x: float, y: float, text: str, anchor: str, style: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} style="{STYLE};{style}">{escape(text)}</text>'


def _document(parts: list[str]) -> str:
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    return "\n".join([head, background, *parts, "</svg>", ""])
