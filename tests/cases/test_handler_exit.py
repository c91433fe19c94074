"""Cases about how handlers end: by leaving, by dying, by raising what nobody expects."""

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner import kernel
from tests import fleets
from tests.cases.aftermath import DEAD, Scene
from tests.fleets import Work
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
ONE_TRY = ("--backoff", "600s:600s")  # so that one attempt can be looked at


def failed_once(work: Work, tasks: dict[str, int]) -> dict[str, tuple[str, str | None]]:
    """Wait until each has failed once and waits; cause and error of each."""
    waiting = {"scheduled": len(tasks)}
    wait_until(lambda: work.states() == waiting, 20, "each has failed once, the rest is done")
    found = {}
    for how, task in tasks.items():
        row = work.row(task)
        assert row is not None
        assert (row["attempt"], row["released"]) == (1, 0)
        found[how] = (row["cause"], row["last_error"])
    return found


@pytest.mark.case("P-07")
def test_p07_at_its_limit_of_memory(scene: Scene) -> None:
    """`ulimit -v` on the workers: the attempts fail with MemoryError, nobody has to die for it."""
    scene.expect(DEAD + "2 attempts: MemoryError")
    work = scene.work
    with scene.fleet(procs=2):
        pids = fleets.wait_registered(work, 2)
        for pid in pids.values():
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
            most = pages * resource.getpagesize() + (64 << 20)
            resource.prlimit(pid, resource.RLIMIT_AS, (most, most))
        (hungry,) = work.add("eats")
        good = work.add("ordinary", 20)
        wait_until(work.only_dead, 30)
        assert work.causes() == {("eats", "MemoryError", 2): 1}
        assert work.workers() == pids
    work.exactly_once(good)
    assert hungry


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A memory cgroup (v1) of 250 MB."""
    path = Path(f"/sys/fs/cgroup/memory/runner-test-{os.getpid()}")
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        (path / "memory.limit_in_bytes").write_text(str(250 << 20))
        yield path
    finally:
        wait_until(lambda: not (path / "cgroup.procs").read_text(), 10, "the group is empty")
        path.rmdir()


@pytest.mark.case("P-07")
def test_p07_killed_by_the_kernel_for_memory(scene: Scene, small_group: Path) -> None:
    """The whole fleet in a group of 250 MB: the kernel takes the worker that eats, not the parent; the
    attempt is charged with the cause, the worker replaced, and nothing else is touched."""
    scene.expect(DEAD + "2 attempts: out of memory")
    work = scene.work
    with scene.fleet(procs=2) as fleet:
        fleets.wait_registered(work, 2)
        for pid in [fleet.pid, *kernel.children_of(fleet.pid)]:
            (small_group / "cgroup.procs").write_text(str(pid))
        work.add("eats")
        good = work.add("ordinary", 20)
        wait_until(work.only_dead, 30)
        assert work.causes() == {("eats", "out of memory", 2): 1}
        wait_until(lambda: len(work.workers()) == 2)
    work.exactly_once(good)


@pytest.mark.case("P-14")
def test_p14_sys_exit_is_a_failure(scene: Scene) -> None:
    """Whatever the code, 0 and none included; and so is leaving the process with code 0."""
    work = scene.work
    ways = {"none": [], "0": [0], "text": ["text"]}
    tasks = {how: work.add("raises", how="sys.exit", **{"with": ways[how]})[0] for how in ways}
    tasks |= {"3": work.add("raises", how="exit 3")[0], "os": work.add("exits")[0]}
    good = work.add("ordinary", 20)
    with scene.fleet(*ONE_TRY, procs=2):
        found = failed_once(work, tasks)
    assert found == {
        "none": ("SystemExit", "SystemExit"),
        "0": ("SystemExit", "SystemExit: 0"),
        "text": ("SystemExit", "SystemExit: text"),
        "3": ("SystemExit", "SystemExit: 3"),
        "os": ("exit code 0", None),
    }
    work.exactly_once(good)


@pytest.mark.case("P-15")
def test_p15_every_base_exception_is_a_failure(scene: Scene) -> None:
    """KeyboardInterrupt and its like are the handler's; the stop's own interrupt is not."""
    work = scene.work
    names = {
        "interrupt": "KeyboardInterrupt",
        "generator": "GeneratorExit",
        "cancelled": "asyncio.exceptions.CancelledError",
        "own": "tests.apps.trouble.Mine",
        "finally": "tests.apps.trouble.Mine",
    }
    tasks = {how: work.add("raises", how=how)[0] for how in names}
    with scene.fleet(*ONE_TRY, "--grace", "500ms", procs=2, ends=0) as fleet:
        pids = fleets.wait_registered(work, 2)
        found = failed_once(work, tasks)
        assert {how: cause for how, (cause, _) in found.items()} == names
        assert work.workers() == pids, "nobody had to be replaced"
        (sixth,) = work.add("slow", seconds=60)
        wait_until(lambda: work.noted("start"))
        assert fleet.stop(signal.SIGTERM) == 0
    row = work.row(sixth)
    assert row is not None
    assert (row["state"], row["attempt"], row["released"]) == ("ready", 0, 1)
    assert not work.effects()


@pytest.mark.case("P-16")
def test_p16_signals_are_named(scene: Scene) -> None:
    """What native code does: the name of the signal, the id and the type, an attempt charged."""
    work = scene.work
    ways = {"SIGSEGV": "SIGSEGV", "abort": "SIGABRT", "null": "SIGSEGV"}
    tasks = {by: work.add("dies", by=by)[0] for by in ways}
    good = work.add("ordinary", 50)
    with scene.fleet(*ONE_TRY, procs=2) as fleet:
        found = failed_once(work, tasks)
        assert {by: cause for by, (cause, _) in found.items()} == ways
        for by, task in tasks.items():
            wait_until(lambda: f"in task {task}: {ways[by]}" in fleet.log())  # noqa: B023
        wait_until(lambda: len(work.workers()) == 2)
    work.exactly_once(good)
    assert {fields[2] for fields in work.noted("start")} == {"1"}


@pytest.mark.case("P-17")
def test_p17_exceptions_that_cannot_travel(scene: Scene) -> None:
    """Only text leaves a worker, so an exception need not be one that can be pickled."""
    work = scene.work
    tasks = {how: work.add("raises", how=how)[0] for how in ("two", "lock", "local")}
    good = work.add("ordinary", 20)
    with scene.fleet(*ONE_TRY, procs=2):
        pids = fleets.wait_registered(work, 2)
        found = failed_once(work, tasks)
        assert work.workers() == pids
    assert [error for _, error in found.values()] == [
        "TwoArguments: this and that",
        "HoldsALock: holds a lock",
        "Local: of a local class",
    ]
    work.exactly_once(good)
