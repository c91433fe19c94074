"""--preload: the app is imported once, in the parent."""

import os
import signal
from pathlib import Path

import pytest

from tests.commands import run
from tests.fleets import running, wait_registered, work
from tests.servers import wait_until

pytestmark = [pytest.mark.db, pytest.mark.process]

APP = """
import os, threading, time
from pathlib import Path
import runner

tasks = runner.Registry()
with open("imported", "a") as file:
    file.write(f"{os.getpid()}\\n")

@tasks.task
def which(tx, task):
    tx.execute("insert into effect (task_id, attempt) values (%s, %s)", [task.id, task.attempt])
"""
LINGERS = """
threading.Thread(target=time.sleep, args=[60], name="lingers", daemon=True).start()
"""


def imports(directory: Path) -> list[int]:
    """Which processes have imported the app."""
    return [int(line) for line in (directory / "imported").read_text().split()]


@pytest.mark.parametrize("preload", [True, False])
def test_who_imports(fresh: str, tmp_path: Path, preload: bool) -> None:
    (tmp_path / "large.py").write_text(APP)
    options = ["--app-dir", str(tmp_path), *(["--preload"] if preload else [])]
    with (
        work(fresh, tmp_path) as queue,
        running(fresh, tmp_path, *options, app="large", procs=3) as fleet,
    ):
        workers = set(wait_registered(queue, 3).values())
        tasks = queue.add("which", 20)
        wait_until(queue.empty, 20, "done")
        assert set(imports(tmp_path)) == ({fleet.pid} if preload else workers)
        assert fleet.stop() == 0
        queue.exactly_once(tasks)


def test_a_hangup_says_that_it_brings_no_new_code(fresh: str, tmp_path: Path) -> None:
    (tmp_path / "large.py").write_text(APP)
    options = ("--app-dir", str(tmp_path), "--preload")
    with (
        work(fresh, tmp_path) as queue,
        running(fresh, tmp_path, *options, app="large", procs=1) as fleet,
    ):
        before = wait_registered(queue, 1)
        fleet.process.send_signal(signal.SIGHUP)
        told = "reload failed: with --preload new code needs a restart; the old workers stay"
        wait_until(lambda: told in fleet.log(), 20, "told")
        assert queue.workers() == before
        assert fleet.stop() == 0


def test_threads_left_behind_are_named(fresh: str, tmp_path: Path) -> None:
    (tmp_path / "large.py").write_text(APP + LINGERS)
    with work(fresh, tmp_path) as queue:
        tasks = queue.add("which", 3)
        options = ("drain", "--preload", "--app-dir", str(tmp_path), "-A", "large")
        done = run(*options, url=fresh, cwd=tmp_path)
        assert done.returncode == 0
        assert "app large started 1 thread at import (lingers)" in done.stderr
        queue.exactly_once(tasks)


@pytest.mark.parametrize("verb", ["start", "drain"])
def test_an_app_that_does_not_load(fresh: str, tmp_path: Path, verb: str) -> None:
    (tmp_path / "large.py").write_text(APP + "import nowhere_to_be_found\n")
    done = run(
        verb, "--preload", "--app-dir", str(tmp_path), "-A", "large", url=fresh, cwd=tmp_path
    )
    assert done.returncode == 78
    assert done.stderr.startswith("runner: error: app large: ")
    assert "nowhere_to_be_found" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert imports(tmp_path) != [os.getpid()]
