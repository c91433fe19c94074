"""Results: lines for people, everything for machines."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEADINGS = ("workload", "ours", "floor", "ratio", "target", "")


@dataclass(frozen=True)
class Target:
    """What is to be reached: by the ratio to the floor, or by the figure itself."""

    bound: float
    at_least: bool = True
    of_ratio: bool = False

    def met(self, ours: float, ratio: float | None) -> bool:
        """Whether a result reaches it."""
        found = ratio if self.of_ratio else ours
        if found is None or math.isnan(found):
            return False
        return found >= self.bound if self.at_least else found <= self.bound

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{'ratio ' if self.of_ratio else ''}{sign} {number(self.bound)}"


def at_least(bound: float) -> Target:
    """The figure itself is so much or more."""
    return Target(bound)


def at_most(bound: float) -> Target:
    """The figure itself is so much or less."""
    return Target(bound, at_least=False)


def ratio_at_least(bound: float) -> Target:
    """The ratio is so much or more."""
    return Target(bound, of_ratio=True)


def ratio_at_most(bound: float) -> Target:
    """The ratio is so much or less."""
    return Target(bound, at_least=False, of_ratio=True)


@dataclass
class Line:
    """One figure: every repetition of ours, and of what it is compared with in the same run.

    `floor` is the other side of the ratio: pgbench, a bare listener, or the same workload
    under other circumstances.
    """

    workload: str
    unit: str
    ours: list[float]
    floor: list[float] = field(default_factory=list)
    floor_name: str = ""
    target: Target | None = None

    @property
    def median(self) -> float:
        """Of ours."""
        return statistics.median(self.ours)

    @property
    def floor_median(self) -> float | None:
        """Of the other side; None without one."""
        return statistics.median(self.floor) if self.floor else None

    @property
    def ratio(self) -> float | None:
        """Of the medians."""
        return self.median / self.floor_median if self.floor_median else None

    @property
    def verdict(self) -> str:
        """ok or below; nothing without a target."""
        if self.target is None:
            return ""
        return "ok" if self.target.met(self.median, self.ratio) else "below"

    def cells(self) -> tuple[str, ...]:
        """As in the table."""
        other = f"{number(self.floor_median)}  {self.floor_name}" if self.floor_median else ""
        return (
            self.workload,
            f"{number(self.median)} {self.unit}",
            other,
            number(self.ratio) if self.ratio is not None else "",
            str(self.target or ""),
            self.verdict,
        )

    def as_dict(self) -> dict[str, Any]:
        """As in the JSON."""
        return {
            "workload": self.workload,
            "unit": self.unit,
            "ours": self.median,
            "ours_all": self.ours,
            "floor": self.floor_median,
            "floor_all": self.floor,
            "floor_name": self.floor_name,
            "ratio": self.ratio,
            "target": str(self.target) if self.target else None,
            "verdict": self.verdict or None,
        }


@dataclass
class Outcome:
    """What one workload gave."""

    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)  # for the JSON and the plots
    failed: bool = False


def number(value: float | None) -> str:
    """Three or four digits that count."""
    if value is None or math.isnan(value):
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share does not exceed."""
    ordered = sorted(values)
    return (
        ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan
    )


def table(outcomes: dict[str, Outcome]) -> str:
    """Every line of every workload, in columns, and the notes below."""
    rows = [HEADINGS, *(line.cells() for each in outcomes.values() for line in each.lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    aligned = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    notes = [f"{name}: {note}" for name, each in outcomes.items() for note in each.notes]
    return "\n".join([aligned[0], "-" * len(aligned[0]), *aligned[1:], *notes])


def write_json(path: Path, facts: dict[str, Any], outcomes: dict[str, Outcome]) -> None:
    """Everything, every repetition included."""
    whole = facts | {
        "lines": [line.as_dict() for each in outcomes.values() for line in each.lines],
        "notes": {name: each.notes for name, each in outcomes.items() if each.notes},
        "details": {name: each.details for name, each in outcomes.items() if each.details},
    }
    path.write_text(json.dumps(_finite(whole), indent=1) + "\n", "utf-8")


def _finite(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
