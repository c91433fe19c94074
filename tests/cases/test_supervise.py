"""Cases about starting and supervising: children that die at once, parts that end quietly."""

import os
import signal
from pathlib import Path

import pytest

from runner import kernel
from tests import commands, fleets
from tests.cases.aftermath import Scene
from tests.commands import error_of, run
from tests.servers import gone, wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]

BROKEN = {
    "syntax": ("def oops(:\n", 78, "tasks.py"),
    "raises": ("import os\nraise RuntimeError(f'no luck in {os.getpid()}')\n", 78, "no luck in"),
    "exits": ("import sys\nsys.exit(0)\n", 78, "sys.exit"),
    "dies": ("import os\nos._exit(3)\n", 70, "workers keep dying at start: exit code 3"),
}


@pytest.mark.case("P-23")
@pytest.mark.parametrize("how", BROKEN)
def test_p23_an_app_that_does_not_start(how: str, fresh: str, tmp_path: Path) -> None:
    """The cause once, a code that is not zero, and no hot loop: what cannot be loaded ends `start` at
    once, what kills its process does after five tries with growing delays."""
    text, code, told = BROKEN[how]
    (tmp_path / "tasks.py").write_text(text)
    result = run("start", "--procs", "4", url=fresh, cwd=tmp_path)
    assert result.returncode == code
    lines = result.stderr.splitlines()
    assert sum(told in line for line in lines) == 1, result.stderr
    assert len(lines) <= 12, result.stderr
    assert "Traceback" not in result.stderr


HOOKED = """
import os, sys, time
import runner
tasks = runner.Registry()

@tasks.task
def hello(tx, task):
    pass

@tasks.{hook}
def hook():
    {body}
"""
AT_START = {
    "says why": ("sys.exit('no settings')", "worker 0: SystemExit: no settings", "exit code 70"),
    "code": ("sys.exit(4)", "", "exit code 4"),
    "no code": ("sys.exit()", "", "exit code 0"),
    "hangs": ("time.sleep(60)", "", "did not report ready in time"),
}


@pytest.mark.case("P-23")
@pytest.mark.parametrize("how", AT_START)
def test_p23_a_hook_that_lets_no_worker_start(how: str, fresh: str, tmp_path: Path) -> None:
    """What they died of is what happened: not that of the signal that we sent, nor our own code."""
    body, told, cause = AT_START[how]
    (tmp_path / "tasks.py").write_text(HOOKED.format(hook="on_worker_start", body=body))
    assert run("enqueue", "hello", url=fresh, cwd=tmp_path).returncode == 0
    result = run("drain", "--procs", "1", "--boot-timeout", "1s", url=fresh, cwd=tmp_path)
    assert result.returncode == 70
    assert result.stderr.splitlines()[-1] == f"runner: error: workers keep dying at start: {cause}"
    assert told in result.stderr


@pytest.mark.case("P-23")
def test_p23_a_hook_that_crashes_a_worker_which_leaves(fresh: str, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(HOOKED.format(hook="on_worker_stop", body="os._exit(9)"))
    assert run("enqueue", "hello", url=fresh, cwd=tmp_path).returncode == 0
    result = run("drain", "-v", "--procs", "1", url=fresh, cwd=tmp_path)
    assert result.returncode == 0
    assert "WARNING supervisor: worker 0 ended: exit code 9" in result.stderr


@pytest.mark.case("P-23")
def test_p23_a_database_that_lets_nobody_in(fresh: str, tmp_path: Path) -> None:
    """A role that may not log in: told before anything is forked, with the code of a bad setting."""
    (tmp_path / "tasks.py").write_text(commands.APP)
    url = fresh.replace("//postgres@", "//pg_monitor@")
    result = run("start", "--procs", "4", url=url, cwd=tmp_path)
    assert result.returncode == 78
    assert "not permitted to log in" in error_of(result)


# -- P-31 -----------------------------------------------------------------------------------------


@pytest.mark.case("P-31")
@pytest.mark.parametrize("fault", ["renew:raise", "look:raise", "hear:raise", "sweep:raise"])
def test_p31_a_part_that_raises_comes_back(scene: Scene, fault: str) -> None:
    """Whatever part of renewer or maintainer raises, that process ends, is named in the log, and is
    there again: leases are renewed, due tasks promoted, added ones heard of."""
    work = scene.work
    once = work.directory / "once"
    faults = {"RUNNER_FAULT": fault, "RUNNER_FAULT_ONCE": str(once)}
    with scene.fleet("--lease", "3s", "--renew", "500ms", procs=2, **faults) as fleet:
        fleets.wait_registered(work, 2)
        idle = "select from runner.runner where idle"
        wait_until(lambda: work.conn.execute(idle).rowcount, 20, "a maintainer at work")
        tasks = work.add("ordinary")
        wait_until(once.exists, 20, "the fault struck")
        part = "renewer" if fault.startswith("renew") else "maintainer"
        scene.expect(f"ERROR   {part}: FaultInjected: a test asked for this")
        wait_until(lambda: f"{part} ended: " in fleet.log())
        tasks += work.add("sleepy", seconds=3)
        later = """insert into runner.task (task_type, run_at)
                   values ('ordinary', clock_timestamp() + interval '1 s') returning task_id"""
        tasks += [row[0] for row in work.conn.execute(later)]
        wait_until(work.empty, 20)
    work.exactly_once(tasks)
    assert {fields[2] for fields in work.noted("start")} == {"1"}


@pytest.mark.case("P-31")
def test_p31_every_part_that_is_killed_comes_back(scene: Scene) -> None:
    """Log, renewer and maintainer, one after the other; each death is told by name, the log's too."""
    work = scene.work
    with scene.fleet("-v", procs=1) as fleet:
        workers = fleets.wait_registered(work, 1)
        helpers = kernel.children_of(fleet.pid) - set(workers.values())
        for pid in sorted(helpers):
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: gone(pid))  # noqa: B023
        wait_until(
            lambda: len(kernel.children_of(fleet.pid) - helpers - set(workers.values())) == 3
        )
        for part in ("log", "renewer", "maintainer"):
            wait_until(lambda: f"{part} ended: SIGKILL" in fleet.log(), why=part)  # noqa: B023
        tasks = work.add("sleepy", seconds=5)
        wait_until(work.empty, 20)
        assert work.workers() == workers
    work.exactly_once(tasks)
    assert len(work.noted("start")) == 1
