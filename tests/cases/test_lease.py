"""Cases about leases: renewed whatever is locked, and lost only by whoever stands still."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from runner import kernel
from tests import commands, fleets
from tests.cases.aftermath import Scene
from tests.fleets import Fleet, Work
from tests.servers import process_state, wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
SHORT = ("--lease", "3s", "--renew", "500ms")
Start = Callable[..., AbstractContextManager[Fleet]]


# -- P-01 -----------------------------------------------------------------------------------------


def leases_move_while_rows_are_locked(scene: Scene, seconds: float, *options: str) -> None:
    """A holds the lock of what it wrote, and an outsider that of its task row, while it and two others
    outlive their lease; a fourth is serializable and longer than a renewal."""
    work = scene.work
    (holder,) = work.add("slow", seconds=seconds)
    others = work.add("sleepy", 2, seconds=seconds)
    strict = work.add("serializable", seconds=2)
    until = "select lease_until from runner.task_lease where task_id = any(%s) order by task_id"
    with scene.fleet(*options) as fleet:
        wait_until(lambda: len(work.noted("start")) == 4)
        pids = work.workers()
        with psycopg.connect(work.url) as lock:
            lock.execute("select from runner.task where task_id = %s for share", [holder])
            seen: set[tuple[Any, ...]] = set()
            end = time.monotonic() + seconds * 0.7
            while time.monotonic() < end:
                seen.add(tuple(row[0] for row in work.conn.execute(until, [others])))
                time.sleep(0.1)
        wait_until(work.empty, seconds + 20)
        assert work.workers() == pids
        assert "kill" not in fleet.log()
    assert len(seen) >= 3, "the leases of the others moved"
    work.exactly_once([holder, *others, *strict])
    assert {fields[2] for fields in work.noted("start")} == {"1"}


@pytest.mark.case("P-01")
def test_p01_a_locked_row_stalls_no_renewal(scene: Scene) -> None:
    """Locks held for longer than a lease: everything once, at the first attempt, nobody killed."""
    leases_move_while_rows_are_locked(scene, 4.0, *SHORT)


@pytest.mark.case("P-01")
@pytest.mark.full
def test_p01_for_four_leases(scene: Scene) -> None:
    leases_move_while_rows_are_locked(scene, 20.0)


# -- P-04 -----------------------------------------------------------------------------------------


@pytest.mark.case("P-04")
def test_p04_a_renewal_that_cannot_keep_the_lease_is_refused(scene: Scene, tmp_path: Path) -> None:
    """Over a third of the lease, or not below it at all: one line, exit code 2, nothing started."""
    for renew in ("3s", "4s", "1100ms"):
        options = ("start", "-A", "tests.apps.chores", "--lease", "3s", "--renew", renew)
        result = commands.run(*options, url=scene.work.url, cwd=tmp_path)
        assert result.returncode == 2
        assert "--renew" in commands.error_of(result)
    assert not scene.work.workers()


def outlived(scene: Scene, seconds: float) -> None:
    """A handler longer than the shortest lease at its slowest renewal, beside an idle worker."""
    work = scene.work
    tasks = work.add("sleepy", seconds=seconds)
    with scene.fleet("--lease", "3s", "--renew", "1s", procs=2):
        wait_until(work.empty, seconds + 10)
    work.exactly_once(tasks)
    assert len(work.noted("start")) == 1


@pytest.mark.case("P-04")
def test_p04_the_slowest_renewal_keeps_the_lease(scene: Scene) -> None:
    outlived(scene, 4.0)


@pytest.mark.case("P-04")
@pytest.mark.full
def test_p04_for_ten_leases(scene: Scene) -> None:
    outlived(scene, 30.0)


# -- P-05 -----------------------------------------------------------------------------------------


@contextmanager
def standing_still(pids: list[int]) -> Iterator[None]:
    """SIGSTOP and SIGCONT for all of these, those that are gone meanwhile aside."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            if process_state(pid) is not None:
                os.kill(pid, signal.SIGCONT)


def paused(work: Work, start: Start, whole: bool, seconds: float = 0.0, **unsafe: str) -> None:
    """Two tasks longer than their lease; their fleet is paused until another has started both, for a
    certain time at least, and goes on."""
    tasks = work.add("first_hangs", 2, seconds=8)
    with start(*SHORT, procs=2, **unsafe) as first:
        wait_until(lambda: len(work.noted("start")) == 2)
        pids = [first.pid, *(kernel.children_of(first.pid) if whole else ())]
        began = time.monotonic()
        with standing_still(pids), start(*SHORT, procs=2):
            wait_until(lambda: len(work.noted("start")) == 4, 20, "the other has taken them")
            time.sleep(max(0.0, began + seconds - time.monotonic()))
            for pid in pids:
                if process_state(pid) is not None:
                    os.kill(pid, signal.SIGCONT)
            wait_until(work.empty, 20)
    work.exactly_once(tasks)


VARIANTS = pytest.mark.parametrize("whole", [False, True], ids=["the parent", "the whole fleet"])


@pytest.mark.case("P-05")
@VARIANTS
def test_p05_a_pause_longer_than_the_lease(scene: Scene, whole: bool) -> None:
    """One effect each, never two live handlers, and the resumed parent goes on. The design has the
    kernel end a worker at its deadline, paused or not, so nothing comes back to be refused."""
    paused(scene.work, scene.fleet, whole)


@pytest.mark.case("P-05")
@pytest.mark.full
@VARIANTS
def test_p05_for_three_leases(scene: Scene, whole: bool) -> None:
    paused(scene.work, scene.fleet, whole, 9.0)


@pytest.mark.case("P-05")
def test_p05_the_witness_has_power(fresh: str, tmp_path: Path) -> None:
    """The same with the timer and the kill switched off does show two live handlers at once."""
    with fleets.work(fresh, tmp_path) as work:
        start = partial(fleets.running, fresh, tmp_path, app="tests.apps.trouble")
        paused(work, start, False, RUNNER_UNSAFE="no-timer,no-kill")
        assert work.noted("overlap")


# -- P-06 -----------------------------------------------------------------------------------------


@pytest.mark.case("P-06")
def test_p06_the_fence_refuses_who_comes_too_late(scene: Scene) -> None:
    """A worker that stands still right before its DELETE, with timer and kill switched off so that it
    comes back: swept, done by another, and its own completion is refused, effect included."""
    work = scene.work
    fault = {"RUNNER_FAULT": "before_commit:freeze", "RUNNER_UNSAFE": "no-timer,no-kill"}
    once = {"RUNNER_FAULT_ONCE": str(work.directory / "frozen")}
    (task,) = work.add("ordinary")
    with scene.fleet(*SHORT, "-v", procs=2, **fault, **once) as fleet:
        wait_until(lambda: work.noted("start"))
        frozen = int(work.noted("start")[0][4])
        wait_until(lambda: process_state(frozen) == "T")
        wait_until(work.empty, 20, "another has done it")
        os.kill(frozen, signal.SIGCONT)
        wait_until(lambda: "lost its lease: nothing was written" in fleet.log())
        assert fleet.log().count(f"task {task} (ordinary) done") == 1
        wait_until(lambda: frozen in work.workers().values(), why="it goes on")
    work.exactly_once([task])


@pytest.mark.case("P-06")
def test_p06_a_frozen_worker_does_not_come_back(scene: Scene) -> None:
    """The same with the guards on: the timer ends it, and its task runs again without charge."""
    work = scene.work
    fault = {"RUNNER_FAULT": "before_commit:freeze"}
    once = {"RUNNER_FAULT_ONCE": str(work.directory / "frozen")}
    (task,) = work.add("ordinary")
    with scene.fleet(*SHORT, "-v", procs=2, **fault, **once) as fleet:
        wait_until(work.empty, 20)
        wait_until(lambda: f"task {task} (ordinary) done" in fleet.log())
        assert fleet.log().count(f"task {task} (ordinary) done") == 1
    work.exactly_once([task])
    assert [fields[2] for fields in work.noted("start")] == ["1", "1"]
