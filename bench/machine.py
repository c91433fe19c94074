"""The machine and the server that a result holds for."""

import os
import platform
import tempfile
import time
import timeit
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.floor import pgbench_version
from bench.report import percentile
from bench.stage import Stage, connect
from runner import __version__
from runner.config import available_cpus

SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size",
            "wal_level", "shared_preload_libraries")  # fmt: skip
SYNCS = 200
CALLS, ROUNDS = 100_000, 15


def facts(place: Stage) -> dict[str, Any]:
    """What has to be told beside every figure."""
    with connect(place.url) as conn:
        version = conn.execute("select current_setting('server_version')").fetchone()
        query = "select name, current_setting(name) from unnest(%s::text[]) as name"
        settings = {row[0]: row[1] for row in conn.execute(query, [list(SETTINGS)])}
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "runner": __version__,
        "python": platform.python_version(),
        "python_call_ns": _python_call_ns(),
        "postgresql": version[0] if version else None,
        "server": "embedded" if place.embedded else "given by --url",
        "settings": settings,
        "pgbench": pgbench_version(),
        "cpus": available_cpus(),
        "cpu": _cpu_model(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "file_system": file_system(place.directory),
        "fdatasync_ms": _fdatasync_ms(place.directory),
        "load_before": os.getloadavg(),
    }


def file_system(path: Path) -> str:
    """The type of the file system that a directory lies on."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    real = str(path.resolve())
    below = [(len(at), kind) for at, kind in mounts if f"{real}/".startswith(f"{at.rstrip('/')}/")]
    return max(below)[1] if below else "unknown"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _python_call_ns() -> float:
    """Of a function that does next to nothing. Two builds of one version may differ by half: with and
    without profile-guided optimization."""
    seconds = timeit.repeat(
        "call(1)", "call = lambda number: number + 1", repeat=ROUNDS, number=CALLS
    )
    return round(percentile(seconds, 0.5) / CALLS * 1e9, 1)


def _fdatasync_ms(directory: Path) -> float:
    """Median of appending 8 kB and flushing it, where the bench keeps its files."""
    times = []
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(SYNCS):
            os.write(file.fileno(), bytes(8192))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return round(percentile(times, 0.5), 3)
