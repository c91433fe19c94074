"""CONTRIBUTING.md, followed: its query, its verb and its role are put into a copy, and they work."""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import environment
from tests.docs import ROOT, blocks
from tests.fleets import work
from tests.servers import gone, wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
ADDED = [
    "runner/store/queries/age.sql",
    "runner/store/age.py",
    "runner/cli/age.py",
    "runner/roles/pulse.py",
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The checkout with what the document adds, and the three edits that it tells in words."""
    path = tmp_path / "copy"
    leave = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info", "build", "dist")
    shutil.copytree(ROOT, path, ignore=leave, symlinks=True)
    for block in blocks(ROOT / "CONTRIBUTING.md"):
        kind, _, name = block.text.partition("\n")[0].lstrip("-# ").partition(": ")
        text = block.text.partition("\n")[2]
        if kind == "file":
            assert name in ADDED
            assert not (path / name).exists()
            (path / name).write_text(text, "utf-8")
        elif kind == "method of":
            indented = re.sub(r"^(?=.)", "    ", text, flags=re.MULTILINE)
            edit(path / name, "    def worker_role", f"{indented}\n    def worker_role")
    edit(path / "runner/cli/root.py", '    "workers",\n', '    "workers",\n    "age",\n')
    fleet = path / "runner/fleet.py"
    edit(fleet, "from .roles.log import", "from .roles.pulse import Pulse\nfrom .roles.log import")
    edit(fleet, "self.worker_role(),", "self.worker_role(), self.pulse_role(),")
    return path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new), "utf-8")


def runner(copy: Path, url: str, log: Path, *arguments: str) -> "subprocess.Popen[str]":
    """The command of the copy."""
    (copy / "tasks.py").write_text("import runner\ntasks = runner.Registry()\n")
    with log.open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "runner", *arguments],
            cwd=copy, env=environment(DATABASE_URL=url, PYTHONPATH=str(copy)),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True,
        )  # fmt: skip


def test_the_query_and_the_verb(copy: Path, fresh: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with work(fresh, tmp_path) as queue:
        queue.add("anything")
        out, _ = runner(copy, fresh, log, "age", "--json").communicate(timeout=60)
    found = json.loads(out)
    assert found["queue"] == "default"
    assert found["seconds"] > 0
    assert log.read_text() == ""
    out, _ = runner(copy, fresh, log, "--help").communicate(timeout=60)
    assert re.search(r"^  age +Show how long the oldest", out, re.MULTILINE)


def test_the_role_is_there_and_is_replaced(copy: Path, fresh: str, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def pulses() -> list[int]:
        records = [json.loads(line) for line in log.read_text().splitlines() if '"pulse"' in line]
        return list(dict.fromkeys(record["pid"] for record in records))

    process = runner(copy, fresh, log, "start", "--procs", "1", "--log-format", "json")
    try:
        (first,) = wait_until(pulses, 30, "it beats")
        os.kill(first, signal.SIGKILL)
        _, second = wait_until(lambda: (found := pulses())[1:] and found, 30, "another beats")
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert gone(second)


def test_the_copy_keeps_the_rules(copy: Path) -> None:
    """Layers and style."""
    for command in (
        ["pytest", "-q", "-p", "no:cacheprovider", "-k", "way", "tests/unit/test_layers.py"],
        ["ruff", "check", *(name for name in ADDED if name.endswith(".py"))],
        ["ruff", "format", "--check", *(name for name in ADDED if name.endswith(".py"))],
    ):
        if importlib.util.find_spec(command[0]) is None:
            continue  # the suite runs without what only scripts/lint needs
        result = subprocess.run(
            [sys.executable, "-m", *command], cwd=copy, env=environment(PYTHONPATH=str(copy)),
            capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout + result.stderr
