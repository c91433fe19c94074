"""Cases about signals and stops: P-37, P-40, P-55, P-60."""

import random
import signal
import time

import pytest

from tests import fleets
from tests.cases.aftermath import Scene
from tests.servers import wait_until
from tests.terminals import bare_terminal

pytestmark = [pytest.mark.process, pytest.mark.db]


def returned(scene: Scene, task: int, released: int = 1) -> None:
    """It may be claimed at once, and nobody was charged."""
    row = scene.work.row(task)
    assert row is not None
    assert (row["state"], row["attempt"], row["released"]) == ("ready", 0, released)


@pytest.mark.case("P-37")
@pytest.mark.parametrize("runs", [8, pytest.param(300, marks=pytest.mark.full)])
@pytest.mark.timeout(900)
def test_p37_term_at_random_moments(scene: Scene, runs: int) -> None:
    """Whatever it interrupts, every task is done by the one start it had, or waits unharmed."""
    work = scene.work
    chance = random.Random(37)
    every: set[int] = set()
    for _ in range(runs):
        every |= set(work.add("counted", 200 - work.states()["ready"]))
        with scene.fleet("--poll", "30s", ends=0) as fleet:
            wait_until(lambda: work.states()["ready"] < 200, 20)
            time.sleep(chance.random() * 0.05)
            fleet.process.terminate()
        assert set(work.states()) <= {"ready"}
        rows = work.conn.execute("select task_id, attempt from runner.task").fetchall()
        assert {attempt for _, attempt in rows} <= {0}
        started = [int(fields[1]) for fields in work.noted("start")]
        assert sorted(started) == sorted(every - {task for task, _ in rows})
    assert len(every) > 200


@pytest.mark.case("P-40")
@pytest.mark.parametrize("view", ["--no-console", "--console"])
def test_p40_ctrl_c_reaches_the_parent_alone(scene: Scene, view: str) -> None:
    """Tasks in hand finish; the message says how to force; the terminal is as it was."""
    work = scene.work
    tasks = work.add("sleepy", 4, seconds=2)
    with (
        bare_terminal() as terminal,
        scene.fleet(view, "--grace", "20s", on=terminal, ends=0, TERM="xterm") as fleet,
    ):
        wait_until(lambda: len(work.noted("start")) == 4)
        fleet.log()  # what is shown so far has been read
        terminal.type("\x03")
        assert terminal.end() == 0
        assert terminal.is_as_before()
        assert "to force" in fleet.log()
        assert "KeyboardInterrupt" not in fleet.log()
    work.exactly_once(tasks)
    assert {fields[2] for fields in work.noted("start")} == {"1"}


@pytest.mark.case("P-55")
def test_p55_stops_burn_no_attempts(scene: Scene) -> None:
    """Five deploys in the middle of a task of two attempts: none used, five counted; then it runs."""
    work = scene.work
    (task,) = work.add("sleepy", seconds=60)
    work.conn.execute("update runner.task set max_attempts = 2")
    for number in range(5):
        with scene.fleet("--grace", "200ms", procs=1, ends=0) as fleet:
            wait_until(lambda least=number: len(work.noted("start")) > least)
            fleet.process.terminate()
        returned(scene, task, released=number + 1)
    work.conn.execute("""update runner.task set params = '{"seconds": 0}'""")
    with scene.fleet(procs=1):
        wait_until(work.empty)
    work.exactly_once([task])


@pytest.mark.case("P-60")
def test_p60_a_second_signal_ends_it_and_a_third_is_harmless(scene: Scene) -> None:
    """The first waits, one within half a second is the same, a later one ends it at once."""
    work = scene.work
    (task,) = work.add("stubborn", seconds=60)
    with scene.fleet("--grace", "30s", procs=1, ends=143) as fleet:
        wait_until(lambda: work.noted("start"))
        fleet.process.send_signal(signal.SIGTERM)
        fleet.process.send_signal(signal.SIGINT)
        time.sleep(1)
        assert fleet.process.poll() is None
        fleet.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        fleet.process.send_signal(signal.SIGTERM)
        assert fleet.process.wait(15) == 143  # half of what it would have waited
    returned(scene, task)
    assert "Traceback" not in scene.log()


@pytest.mark.case("P-60")
def test_p60_a_storm_of_signals(scene: Scene) -> None:
    """Ten of both kinds at once, forty in a second: the first waits, one after half a second ends it."""
    work = scene.work
    (task,) = work.add("sleepy", seconds=60)
    with scene.fleet("--grace", "30s", procs=1, ends=130) as fleet:
        wait_until(lambda: work.noted("start"))
        for _ in range(5):
            fleet.process.send_signal(signal.SIGTERM)
            fleet.process.send_signal(signal.SIGINT)
        wait_until(lambda: "stopping" in fleet.log())
        for _ in range(40):
            if fleet.process.poll() is None:
                fleet.process.send_signal(signal.SIGINT)
            time.sleep(0.025)
        assert fleet.process.wait(15) == 130  # half of what it would have waited
    returned(scene, task)
    assert "Traceback" not in scene.log()


@pytest.mark.case("P-60")
def test_p60_both_signals_alike(scene: Scene) -> None:
    """An INT alone is a graceful stop, too."""
    with scene.fleet(procs=1, ends=0) as fleet:
        fleets.wait_registered(scene.work, 1)
        fleet.process.send_signal(signal.SIGINT)
