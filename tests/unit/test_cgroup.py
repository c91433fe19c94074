"""Quotas and kills for want of memory, in both layouts of the kernel's files."""

from pathlib import Path

import pytest

from runner import cgroup


def lay_out(root: Path, files: dict[str, str], membership: str) -> tuple[Path, Path]:
    for name, text in files.items():
        path = root / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "fs").mkdir(exist_ok=True)
    (root / "membership").write_text(membership)
    return root / "fs", root / "membership"


@pytest.mark.parametrize(
    ("text", "count"),
    [("max 100000", None), ("150000 100000", 2), ("50000 100000", 1), ("odd", None), ("", None)],
)
def test_the_quota_of_a_container(text: str, count: int | None, tmp_path: Path) -> None:
    assert cgroup.cpus(*lay_out(tmp_path, {"cpu.max": text}, "0::/\n")) == count


def test_the_tightest_quota_on_the_way_up_counts(tmp_path: Path) -> None:
    files = {
        "system.slice/cpu.max": "150000 100000",
        "system.slice/runner.service/cpu.max": "400000 100000",
        "cpu.max": "max 100000",
    }
    assert cgroup.cpus(*lay_out(tmp_path, files, "0::/system.slice/runner.service\n")) == 2


def test_the_older_layout(tmp_path: Path) -> None:
    files = {
        "cpu/box/cpu.cfs_quota_us": "300000\n",
        "cpu/box/cpu.cfs_period_us": "100000\n",
        "cpu/cpu.cfs_quota_us": "-1\n",
        "cpu/cpu.cfs_period_us": "100000\n",
        "memory/box/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n",
    }
    membership = "9:name=systemd:/\n6:memory:/box\n3:cpu,cpuacct:/box\n"
    layout = lay_out(tmp_path, files, membership)
    assert (cgroup.cpus(*layout), cgroup.oom_kills(*layout)) == (3, 7)


def test_kills_in_the_newer_layout(tmp_path: Path) -> None:
    files = {"a/memory.events": "low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\n"}
    assert cgroup.oom_kills(*lay_out(tmp_path, files, "0::/a\n")) == 2


def test_nothing_is_told(tmp_path: Path) -> None:
    layout = lay_out(tmp_path, {}, "")
    assert (cgroup.cpus(*layout), cgroup.oom_kills(*layout)) == (None, 0)
