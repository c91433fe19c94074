"""The system has no room: no more processes, no more descriptors. Run with fewer, and say so."""

import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleets import QUICK, ROOT, Fleet, end, environment, work
from tests.servers import wait_until

pytestmark = pytest.mark.process

PROCS = 8


@pytest.fixture
def few_processes() -> Iterator[Path]:
    """A cgroup whose processes and threads are counted; skipped where none can be made."""
    mounts = [Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")]
    for mount in mounts:
        group = mount / f"runner-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / "pids.max").exists():
            break
        group.rmdir()
    else:
        pytest.skip("no cgroup that counts processes can be made here")
    try:
        yield group
    finally:
        group.rmdir()


@contextmanager
def fleet(url: str, directory: Path, before: object, *options: str) -> Iterator[Fleet]:
    """`runner start` whose process was prepared by `before`."""
    log_path = directory / "stderr"
    command = [sys.executable, "-m", "runner", "start", "--procs", str(PROCS), *QUICK, *options]
    command += ["-A", "tests.apps.chores", "--app-dir", str(ROOT)]
    env = environment(directory, DATABASE_URL=url)
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=before
        )
    try:
        yield Fleet(process, directory, log_path)
    finally:
        end(process)


def works_with_fewer(fleet: Fleet, url: str, directory: Path, error: str) -> int:
    """It says so, works, and loses nothing; how many workers there were."""
    with work(url, directory) as queue:
        wait_until(lambda: f"({error})" in fleet.log(), 30, "told")
        wait_until(lambda: len(queue.workers()) >= 1, 30, "a worker")
        ids = queue.add("ordinary", 200)
        wait_until(queue.empty, 30, "all done")
        queue.exactly_once(ids)
        count = len(queue.workers())
        assert fleet.process.poll() is None
        assert fleet.stop() == 0
        told = re.findall(r"cannot start another worker \(.*?\); \d+ workers? runs?", fleet.log())
        assert 1 <= len(told) == len(set(told)), fleet.log()  # once for each number that ran
        assert "Traceback" not in fleet.log()
        return count


def test_no_more_processes(fresh: str, tmp_path: Path, few_processes: Path) -> None:
    """Room for the parent, the helpers and their threads, and a few of the eight workers."""

    def enter() -> None:
        (few_processes / "cgroup.procs").write_text(str(os.getpid()))

    (few_processes / "pids.max").write_text("12")
    with fleet(fresh, tmp_path, enter) as one:
        count = works_with_fewer(one, fresh, tmp_path, "Resource temporarily unavailable")
    assert 1 <= count < PROCS


@pytest.mark.parametrize("limit", [52, 60])
def test_no_more_descriptors(limit: int, fresh: str, tmp_path: Path) -> None:
    def reduce() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    with fleet(fresh, tmp_path, reduce) as one:
        count = works_with_fewer(one, fresh, tmp_path, "Too many open files")
        assert f"open files are limited to {limit}: room for " in one.log()
    assert 1 <= count < PROCS


def test_too_few_descriptors_for_any_fleet(fresh: str, tmp_path: Path) -> None:
    def reduce() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))

    with fleet(fresh, tmp_path, reduce) as one:
        assert one.process.wait(30) == 78
    first, hint = one.log().splitlines()
    assert first == "runner: error: open files are limited to 32: too few for a fleet"
    assert hint.startswith("hint: allow 84 (ulimit -n")


def test_a_low_limit_of_ones_own_is_raised_for_the_parent_alone(fresh: str, tmp_path: Path) -> None:
    """Of a soft limit nothing is heard; handlers and their programs find it as it was."""

    def reduce() -> None:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (52, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )

    with fleet(fresh, tmp_path, reduce) as one, work(fresh, tmp_path) as queue:
        wait_until(lambda: len(queue.workers()) == PROCS, 30, "all of them")
        limits = [Path(f"/proc/{pid}/limits").read_text() for pid in queue.workers().values()]
        assert one.stop() == 0
        assert "limited" not in one.log()
    assert all(re.search(r"Max open files +52 ", text) for text in limits)


def test_threads_that_cannot_be_started_are_no_failure_of_the_app(
    fresh: str, tmp_path: Path, few_processes: Path
) -> None:
    """At every limit the fleet goes on trying: it never gives up for want of room."""

    def enter() -> None:
        (few_processes / "cgroup.procs").write_text(str(os.getpid()))

    (few_processes / "pids.max").write_text("6")
    with fleet(fresh, tmp_path, enter) as one:
        wait_until(
            lambda: one.log().count("no room for its threads") >= 6, 40, "more than five tries"
        )
        assert one.process.poll() is None
        (few_processes / "pids.max").write_text("max")
        with work(fresh, tmp_path) as queue:
            wait_until(
                lambda: len(queue.workers()) == PROCS, 40, "all of them, now that there is room"
            )
        assert one.stop() == 0
        assert "Traceback" not in one.log()
