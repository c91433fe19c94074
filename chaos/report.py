"""A campaign's result as text and as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from chaos.campaign import SETTLED_SECONDS, Result

SHOWN = 5  # ids of each kind of violation


def as_json(result: Result, skipped: Mapping[str, str], **facts: Any) -> dict[str, Any]:
    """Everything, for a file."""
    judged = asdict(result.judgement)
    return {
        **facts,
        "faults": sum(result.struck.values()),
        "struck": dict(sorted(result.struck.items())),
        "missed": dict(sorted(result.missed.items())),
        "skipped": dict(skipped),
        "seconds": round(result.seconds, 1),
        "settled_seconds": _rounded(result.settled_seconds),
        "restarts": result.restarts,
        **judged,
    }


def as_text(result: Result, skipped: Mapping[str, str], **facts: Any) -> str:
    """The report that people read; the seed is in its first line. `skipped`: faults, and why."""
    judged = result.judgement
    lines = ["  ".join(f"{name} {value}" for name, value in facts.items()), ""]
    lines += [f"{count:7,}  {fault}" for fault, count in sorted(result.struck.items())]
    lines += [f"      -  {fault}: skipped, {reason}" for fault, reason in sorted(skipped.items())]
    lines += [f"{sum(result.struck.values()):7,}  faults in {result.seconds:.0f} s", ""]
    lines += [
        f"{judged.acknowledged:7,}  tasks acknowledged, {judged.completed:,} completed"
        f" in {judged.starts:,} attempts, {judged.dead} dead, {judged.left} left",
        f"{len(judged.lost):7,}  lost{_some(judged.lost)}",
        f"{len(judged.doubled):7,}  doubled{_some(judged.doubled)}",
        f"{len(judged.undeleted):7,}  with an effect, and not deleted{_some(judged.undeleted)}",
        f"{len(judged.gave_up):7,}  dead before their last attempt{_some(judged.gave_up)}",
        f"{len(judged.overlaps):7,}  overlaps{_some(judged.overlaps)}",
        f"{len(judged.strays):7,}  strays, of {judged.census:,} programs{_some(judged.strays)}",
        f"{result.restarts:7,}  parents that ended by themselves",
        _settled(result),
    ]
    return "\n".join(lines)


def kept(result: Result) -> bool:
    """Whether the promise was kept."""
    settled = result.settled_seconds
    return result.judgement.violations == 0 and settled is not None and settled <= SETTLED_SECONDS


def _settled(result: Result) -> str:
    bound = f"(promised: {SETTLED_SECONDS:.0f})"
    if result.settled_seconds is None:
        return f"  never  all done after the last fault {bound}"
    return f"{result.settled_seconds:7.1f}  seconds from the last fault until all was done {bound}"


def _some(ids: list[int]) -> str:
    return f": {', '.join(map(str, ids[:SHOWN]))}" if ids else ""


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)
