"""Cases about what a handler leaves running, and about handlers that listen to nobody."""

import time

import pytest

from tests import fleets
from tests.cases.aftermath import Scene
from tests.fleets import Work
from tests.servers import gone, wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]


def programs_of(work: Work) -> list[int]:
    """Wait for what the handler `programs` started: in the group, below a shell, in a session."""
    path = work.directory / "programs"
    wait_until(lambda: path.exists() and len(path.read_text().split()) == 3)
    return [int(word) for word in path.read_text().split()]


@pytest.mark.case("P-20")
def test_p20_programs_do_not_outlive_their_task(scene: Scene) -> None:
    """When the next task starts they are gone, sessions of their own included."""
    work = scene.work
    work.add("programs")
    with scene.fleet(procs=1):
        programs = programs_of(work)
        wait_until(work.empty)
        assert fleets.all_gone(programs)


@pytest.mark.case("P-20")
def test_p20_programs_die_with_their_worker(scene: Scene) -> None:
    """The lease of a hanging task is taken away: its worker is killed with all that it started, and
    neither the parent nor a sibling is touched."""
    work = scene.work
    (hanging,) = work.add("programs", seconds=300)
    (sibling,) = work.add("sleepy", seconds=2.5)
    with scene.fleet(procs=2):
        programs = programs_of(work)
        wait_until(lambda: work.noted("start"))
        worker = "select pid, worker_id from runner.task_lease where task_id = %s"
        ((pid, worker_id),) = work.conn.execute(worker, [hanging]).fetchall()
        others = set(fleets.wait_registered(work, 2).values()) - {pid}
        work.conn.execute("update runner.task set task_type = 'ordinary'")  # for its next start
        work.conn.execute("delete from runner.worker where worker_id = %s", [worker_id])
        wait_until(lambda: gone(pid), 30, "killed for its lease")
        wait_until(lambda: fleets.all_gone(programs), 30, "its programs with it")
        wait_until(work.empty, 20)
        assert others <= set(work.workers().values())
    work.exactly_once([hanging, sibling])


@pytest.mark.case("P-21")
def test_p21_a_handler_in_c_does_not_hold_up_the_stop(scene: Scene) -> None:
    """Grace, TERM, KILL, by the clock of the parent; the task is given back."""
    work = scene.work
    (task,) = work.add("in_c")
    with scene.fleet("--grace", "1s", procs=1, ends=0) as fleet:
        wait_until(lambda: work.noted("start"))
        began = time.monotonic()
        assert fleet.stop() == 0
        assert time.monotonic() - began < 30
    row = work.row(task)
    assert row is not None
    assert (row["state"], row["attempt"], row["released"]) == ("ready", 0, 1)
