"""Cases about clocks: P-41, P-42."""

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

import runner
from chaos import clock
from runner.store.passes import SWEPT
from tests import fleets
from tests.cases.aftermath import Scene
from tests.commands import command, environment
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]


@pytest.mark.case("P-41")
@pytest.mark.skipif(clock.lacking() is not None, reason=str(clock.lacking()))
@pytest.mark.parametrize("hours", [1, -1])
def test_p41_a_host_whose_clock_is_off(scene: Scene, hours: int) -> None:
    """Enqueued and run on a host an hour off: each task once, when the database's clock says so."""
    work = scene.work
    fake = clock.off_by(hours)
    ahead = 3600 * hours

    def enqueue(*arguments: str) -> int:
        """By the command, on that host; the id."""
        env = environment(DATABASE_URL=work.url, **fake)
        made = subprocess.run(
            command("enqueue", "ordinary", *arguments), env=env, stdout=subprocess.PIPE, check=True
        )
        return int(made.stdout)

    with scene.fleet("--lease", "3s", "--renew", "500ms", procs=2, **fake):
        fleets.wait_registered(work, 2)
        (long,) = work.add("sleepy", seconds=4)  # longer than the lease
        soon = enqueue()
        due = time.time() + 3.0
        query = """insert into runner.task (task_type, run_at)
                   values ('ordinary', clock_timestamp() + interval '3 s') returning task_id"""
        later = [row[0] for row in work.conn.execute(query).fetchall()]
        later.append(enqueue("--in", "3s"))
        wait_until(lambda: soon in work.effects(), 20)
        wait_until(work.empty, 20)
    work.exactly_once([long, soon, *later])
    starts = {int(fields[1]): float(fields[5]) for fields in work.noted("start")}
    # What the witnesses read is off as well; and they write three decimals.
    assert all(due - 0.002 < starts[task] - ahead < due + 600 for task in later)
    assert {fields[2] for fields in work.noted("start")} == {"1"}
    assert SWEPT not in scene.log()
    assert "killing" not in scene.log()


# The clock on the wall jumps a day ahead or back, several times a second, in every process.
JUMPY = """
import sys, time
true_time, true_ns = time.time, time.time_ns
jump = lambda: (int(time.monotonic() * 5) % 3 - 1) * 86400
time.time = lambda: true_time() + jump()
time.time_ns = lambda: true_ns() + jump() * 10**9
del sys.argv[:3]
from runner.cli import main
main()
"""


@pytest.mark.case("P-42")
def test_p42_a_clock_that_jumps_while_it_runs(scene: Scene) -> None:
    """Nobody is killed, no lease is lost over several of them, and polling keeps its pace."""
    work = scene.work
    jumpy = work.directory / "jumpy.py"
    jumpy.write_text(JUMPY)
    options = ("--lease", "3s", "--renew", "500ms", "--no-listen", "--poll", "500ms")
    with scene.fleet(*options, procs=3, under=[sys.executable, str(jumpy)]):
        workers = fleets.wait_registered(work, 3)
        tasks = work.add("sleepy", 2, seconds=5)
        for _ in range(4):
            tasks += work.add("ordinary")
            wait_until(lambda: work.states().keys() <= {"running"}, 10, "polled")
        wait_until(work.empty, 20)
        assert fleets.wait_registered(work, 3) == workers
    work.exactly_once(tasks)
    assert {fields[2] for fields in work.noted("start")} == {"1"}
    assert "WARNING" not in scene.log()


WALL = {"time", "time_ns", "now", "today", "utcnow", "localtime", "gmtime"}
# Only to show what time it is, or how far it is off.
STAMPS = {
    *("logpipe.py", "loglines.py", "cli/watch.py", "console/app.py", "console/deeds.py"),
    *("console/view.py", "store/doctor.py", "cli/tables.py", "roles/log.py"),
}


@pytest.mark.case("P-42")
def test_p42_no_deadline_is_on_the_wall() -> None:
    """Nothing but what people read looks at a clock that can be set."""
    package = Path(runner.__file__).parent
    found: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(ast.Name("time" | "datetime" | "date"), attr)) if (
                    attr in WALL
                ):
                    found.setdefault(str(path.relative_to(package)), set()).add(attr)
    assert set(found) <= STAMPS, found
    assert "time" in found["logpipe.py"]  # the search finds what it is for
