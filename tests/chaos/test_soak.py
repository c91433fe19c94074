"""The campaign in short: every fault at once, and the arm that shows that its witnesses can see."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands import environment

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.process


def chaos(directory: Path, *arguments: str) -> dict[str, Any]:
    """A run to its end; its report for programs, and what it printed."""
    out = directory / "out.json"
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "--json", str(out), *arguments],
        cwd=directory, env=environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True,
        timeout=280, check=False,
    )  # fmt: skip
    assert out.exists(), done.stderr
    return {"printed": done.stdout, "code": done.returncode, **json.loads(out.read_text())}


@pytest.mark.timeout(300)
def test_two_runners_under_every_fault(tmp_path: Path) -> None:
    """Nothing lost, nothing doubled, never two handlers for a task, no program left, and an end."""
    seconds = 240 if os.environ.get("RUNNER_TEST_FULL") else 40
    found = chaos(tmp_path, "--seconds", str(seconds))
    kinds = ("lost", "doubled", "undeleted", "gave_up", "overlaps", "strays")
    assert {kind: found[kind] for kind in kinds} == {kind: [] for kind in kinds}, found["printed"]
    assert found["settled_seconds"] is not None, found["printed"]
    assert found["left"] == 0, found["printed"]
    # Dead is who was struck at each of its many attempts, as a long one may be on a slow machine.
    assert found["completed"] + found["dead"] == found["acknowledged"] > 0
    assert found["dead"] <= found["acknowledged"] / 1000, found["printed"]
    # The machine may be slow; a run that hardly struck would show nothing.
    assert found["faults"] > 2 * seconds, found["printed"]
    assert found["census"] > 0


@pytest.mark.timeout(300)
def test_the_witnesses_have_power(tmp_path: Path) -> None:
    """Without the kernel's timer and the parent's kill there are overlaps, and still no effect twice."""
    found = chaos(tmp_path, "--control", "--seconds", "20")
    assert found["overlaps"], found["printed"]
    assert found["lost"] == found["doubled"] == []
    assert found["code"] == 0
