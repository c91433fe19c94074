"""scripts/bench: that it measures, and leaves nothing behind. How fast anything is, is not asked."""

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import psycopg
import pytest

from bench import listener, plots
from bench.fleet import BenchError, running
from bench.report import Line, Outcome, percentile, ratio_at_least, table
from bench.stage import Stage, database
from bench.workloads.latency import sample
from tests import servers
from tests.commands import environment

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.process, pytest.mark.db]


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench", *arguments], cwd=cwd, text=True,
        env=environment(PYTHONPATH=str(ROOT)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def bench(*arguments: str, cwd: Path) -> tuple[str, dict[str, object]]:
    """A run to its end; its table and its JSON."""
    out = cwd / "out.json"
    process = start("--tiny", "--json", str(out), *arguments, cwd=cwd)
    told, trouble = process.communicate(timeout=280)
    assert process.returncode == 0, trouble
    return told, json.loads(out.read_text())


def databases(url: str) -> set[str]:
    with psycopg.connect(url) as conn:
        return {row[0] for row in conn.execute("select datname from pg_database").fetchall()}


def test_throughput_beside_its_floor(fresh: str, tmp_path: Path) -> None:
    before = databases(fresh)
    told, found = bench("--only", "noop", "--repeat", "2", "--url", fresh, cwd=tmp_path)
    lines = {(each["workload"], each["floor_name"]): each for each in found["lines"]}  # type: ignore
    assert {workload for workload, _ in lines} == {"noop"}
    for each in lines.values():
        assert len(each["ours_all"]) == len(each["floor_all"]) == 2
        assert each["ratio"] == pytest.approx(each["ours"] / each["floor"])
        assert each["verdict"] in ("ok", "below", None)
    assert "claim 50" in told
    told_of = {"date", "cpus", "python", "python_call_ns", "postgresql", "command", "fdatasync_ms"}
    assert told_of <= set(found)
    assert fresh not in json.dumps(found)
    assert databases(fresh) == before


def test_effect_beside_psycopg_alone(fresh: str, tmp_path: Path) -> None:
    _, found = bench("--only", "effect", "--url", fresh, cwd=tmp_path)
    lines = {each["floor_name"]: each for each in found["lines"] if each["ours_all"]}  # type: ignore
    assert "psycopg alone [effect + delete]" in lines
    assert all(each["floor"] > 0 and each["ratio"] > 0 for each in lines.values())


def test_latency_beside_a_bare_listener(fresh: str, tmp_path: Path) -> None:
    told, found = bench("--only", "latency", "--repeat", "2", "--url", fresh, cwd=tmp_path)
    lines = {each["workload"]: each for each in found["lines"]}  # type: ignore
    assert len(lines) == 5
    for name, each in lines.items():
        if "max" in name:
            assert each["floor"] is None
            continue
        assert len(each["ours_all"]) == len(each["floor_all"]) == 2
        assert each["floor_name"] == listener.NAME
        assert each["ratio"] == pytest.approx(each["ours"] / each["floor"])
        assert "ratio" not in (each["target"] or "")
    assert told.count(listener.NAME) == 4


def test_a_listener_that_died_is_told(fresh: str, tmp_path: Path) -> None:
    place = Stage(fresh, tmp_path, embedded=False, statements=False)
    with database(place) as url, listener.listener(place, url) as bare:
        assert len(sample(bare, url, 3, listener.put).from_send) == 3
        bare.process.kill()
        with pytest.raises(BenchError, match=f"{listener.NAME} ended with -9"):
            sample(bare, url, 1, listener.put)


def test_a_listener_whose_bench_is_gone_ends(fresh: str, tmp_path: Path) -> None:
    place = Stage(fresh, tmp_path, embedded=False, statements=False)
    command = [*listener.COMMAND, "1"]  # a parent that it does not have
    with (
        database(place) as url,
        listener.listener(place, url),
        running(place, url, "orphan", command) as orphan,
    ):
        assert orphan.process.wait(30) == 0


@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_rest_and_the_plots(fresh: str, tmp_path: Path) -> None:
    names = (
        "effect",
        "latency",
        "backlog",
        "pinned",
        "enqueue",
        "idle",
        "memory",
        "startup",
        "procs",
    )
    _, found = bench("--only", *names, "--url", fresh, "--plots", "plots", cwd=tmp_path)
    measured = {each["workload"].split()[0].rstrip(",:") for each in found["lines"]}  # type: ignore
    assert measured == set(names)
    for each in (tmp_path / "plots").iterdir():
        assert ElementTree.parse(each).getroot().tag.endswith("svg")
    assert {"processes.svg", "pinned.svg"} <= {each.name for each in (tmp_path / "plots").iterdir()}


@pytest.mark.parametrize(
    ("number", "sign"),
    [
        (signal.SIGINT, "fleet-*.log"),
        (signal.SIGINT, "bare-listener-*.log"),
        (signal.SIGTERM, "change.lock"),
    ],
)
def test_interrupted_it_leaves_nothing(number: signal.Signals, sign: str, tmp_path: Path) -> None:
    """While a fleet or a listener runs, or the server starts; the census sees what is left."""
    with servers.reachable_directory() as below:
        process = start("--tiny", "--only", "latency", "--dir", str(below), cwd=tmp_path)
        try:
            servers.wait_until(lambda: list(below.glob(f"*/{sign}")), 60, sign)
            for _ in range(2):  # people press it twice
                os.kill(process.pid, number)
            assert process.wait(60) == 128 + number
            assert list(below.iterdir()) == []
        finally:
            process.kill()
            process.communicate()


def test_a_line_and_its_verdict() -> None:
    line = Line("noop", "tasks/s", [1.0, 5.0, 3.0], [4.0, 8.0, 6.0], "floor", ratio_at_least(0.5))
    assert (line.median, line.floor_median, line.ratio, line.verdict) == (3.0, 6.0, 0.5, "ok")
    assert Line("noop", "s", [1.0], [4.0], "floor", ratio_at_least(0.5)).verdict == "below"
    shown = table({"noop": Outcome([line], ["a note"])})
    assert shown.splitlines()[2].split()[:2] == ["noop", "3.00"]
    assert shown.splitlines()[-1] == "noop: a note"


def test_percentiles() -> None:
    values = [float(each) for each in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert percentile([7.0], 0.5) == 7.0


def test_plots_of_anything_are_svg() -> None:
    drawn = plots.lines(
        "<t>", "x", "y", {"a & b": [(1, 0.5), (1000, 3)], "c": [(1, 2)]}, log_x=True
    )
    root = ElementTree.fromstring(drawn)
    assert "a & b" in [each.text for each in root.iter() if each.text]
    assert (
        ElementTree.fromstring(plots.lines("one", "x", "y", {"": [(1, 0)]}, log_y=True)) is not None
    )
