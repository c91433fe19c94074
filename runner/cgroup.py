"""What the control groups of this process allow and have done, in either version of their files."""

import math
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def cpus(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """CPUs by the tightest quota, rounded up; None where there is none."""
    quotas = [_quota_v2(one / "cpu.max") for one in _directories("", root, membership)]
    quotas += [_quota_v1(one) for one in _directories("cpu", root, membership)]
    return min((math.ceil(quota) for quota in quotas if quota), default=None)


def oom_kills(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int:
    """How many processes the kernel has killed here for want of memory; 0 where that is not told."""
    for controller, name in (("", "memory.events"), ("memory", "memory.oom_control")):
        for directory in _directories(controller, root, membership):
            fields = dict(line.split() for line in _read(directory / name).splitlines())
            if "oom_kill" in fields:
                return int(fields["oom_kill"])
    return 0


def _directories(controller: str, root: Path, membership: Path) -> Iterator[Path]:
    """Ours and those above it, the innermost first; in a container often only the root is there."""
    base = root / controller if controller else root
    for line in _read(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            parts = [part for part in path.split("/") if part not in ("", "..")]
            for depth in range(len(parts), 0, -1):
                yield base.joinpath(*parts[:depth])
    yield base


def _quota_v2(file: Path) -> float | None:
    words = _read(file).split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return None
    return int(words[0]) / int(words[1])


def _quota_v1(directory: Path) -> float | None:
    quota, period = (
        _read(directory / name).strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    )
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, ValueError):
        return ""
