"""Rates and durations by type, made from the counts of the last minutes. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from ..tally import quantile

Record = dict[str, Any]
WINDOW_SECONDS = 60.0
NO_RATES: Record = {
    "done_per_second": 0.0,
    "failed_per_second": 0.0,
    "p50_seconds": None,
    "p95_seconds": None,
}


def rates(minutes: Iterable[Record], counted_seconds: float | None) -> dict[str, Record]:
    """For each type with counts its rates per second over the last 60 s, or since counting began
    (`counted_seconds`; None: nobody counts now), and the median and 95th percentile of how long
    attempts took in all of `minutes`."""
    minutes = list(minutes)
    by_type: dict[str, list[Record]] = {}
    for one in minutes:
        by_type.setdefault(one["type"], []).append(one)
    window = _window(minutes, counted_seconds or WINDOW_SECONDS)
    return {name: _rates_of(found, max(1.0, window)) for name, found in by_type.items()}


def _window(minutes: Iterable[Record], counted_seconds: float) -> float:
    # A minute that was over shortly before we began was counted by a fleet before this one, whose counts
    # may be among those of the last 60 s.
    before = any(
        0 <= one["began_seconds_ago"] - WINDOW_SECONDS - counted_seconds <= WINDOW_SECONDS
        for one in minutes
    )
    return WINDOW_SECONDS if before else min(WINDOW_SECONDS, counted_seconds)


def total(found: Iterable[Record]) -> Record:
    """The rates of all types together, per second."""
    found = list(found)
    names = ("done_per_second", "failed_per_second")
    return {name: round(sum(one[name] for one in found), 3) for name in names}


def _rates_of(minutes: Sequence[Record], window: float) -> Record:
    shares = [_share_in_window(one["began_seconds_ago"]) for one in minutes]
    durations = [sum(counts) for counts in zip(*(one["durations"] for one in minutes), strict=True)]
    return {
        "done_per_second": _per_second(minutes, shares, "done", window),
        "failed_per_second": _per_second(minutes, shares, "failed", window),
        "p50_seconds": _rounded(quantile(durations, 0.5)),
        "p95_seconds": _rounded(quantile(durations, 0.95)),
    }


def _share_in_window(began_seconds_ago: float) -> float:
    """How much of a minute lies in the last 60 s: all of this one, the rest of the one before."""
    return min(1.0, max(0.0, 2 - began_seconds_ago / WINDOW_SECONDS))


def _per_second(
    minutes: Sequence[Record], shares: Sequence[float], name: str, window: float
) -> float:
    counted = sum(one[name] * share for one, share in zip(minutes, shares, strict=True))
    return round(float(counted) / window, 3)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
