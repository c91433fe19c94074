"""Durations and sizes, as people write and read them. What cannot be meant is a ValueError."""

import math
import re

DAY_SECONDS = 86_400.0
LONGEST_SECONDS = 36_500 * DAY_SECONDS  # a century; beyond it somebody mistyped
LARGEST_BYTES = 1 << 60

_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY_SECONDS}
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_AMOUNT = r"\s*([0-9]{1,30}(?:\.[0-9]{0,30})?)\s*"
_DURATION = re.compile(_AMOUNT + r"(ms|s|m|h|d|)\s*", re.IGNORECASE)
_SIZE = re.compile(_AMOUNT + r"([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)


def parse_duration(text: str) -> float:
    """Seconds of `250ms`, `30s`, `5m`, `1.5h`, `2d`; a plain number is seconds."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{_shown(text)} is no duration: write it as 250ms, 30s, 5m, 1.5h or 2d")
    seconds = float(found[1]) * _SECONDS[found[2].lower()]
    if seconds > LONGEST_SECONDS:
        raise ValueError(f"{_shown(text)} is more than 100 years")
    return seconds


def parse_size(text: str) -> int:
    """Bytes of `512MB`, `1.5G`, `64KiB`, a plain number; a kilo is 1024 in each spelling."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{_shown(text)} is no size: write it as 64KB, 512MB or 1.5GB")
    size = float(found[1]) * _BYTES[found[2].lower()]
    if size > LARGEST_BYTES:
        raise ValueError(f"{_shown(text)} is more than any machine has")
    return math.ceil(size)


def duration(seconds: float) -> str:
    """`250ms`, `12.3s`, `5m12s`, `3h05m`, `2d4h`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 24 else f"{hours // 24}d{hours % 24}h"


def since(seconds: float) -> str:
    """How long ago, in one unit: `20s ago`, `3m ago`, `5h ago`; what is to come, as `in 20s`."""
    away = abs(seconds)
    sizes = ((DAY_SECONDS, "d"), (3600.0, "h"), (60.0, "m"))
    size, unit = next((one for one in sizes if away >= 2 * one[0]), (1.0, "s"))
    amount = f"{away // size:.0f}{unit}"
    return f"in {amount}" if seconds < 0 else f"{amount} ago"


def _shown(text: str) -> str:
    return ascii(text[:40])
