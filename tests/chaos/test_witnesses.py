"""The judgement finds what it is there to find."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from chaos.processes import born, gone
from chaos.witnesses import STRAY_SECONDS, Census, Log, judge
from tests.servers import Connection, wait_until

pytestmark = pytest.mark.db


def log_of(path: Path, *lines: str) -> Log:
    path.write_text("".join(line + "\n" for line in lines))
    log = Log(path)
    log.follow()
    return log


@pytest.fixture
def effects(db: Connection) -> Connection:
    db.execute("create table effect (task_id bigint, attempt int)")
    return db


def test_nothing_wrong(effects: Connection, tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", "start 1 1 7 99 0.1", "end 1 1 7 99 0.2", "end 3 1 8 99 0.3")
    effects.execute("insert into effect values (1, 1)")
    effects.execute("insert into runner.task (task_id, task_type) values (2, 'quick')")
    judged = judge(effects, [1, 2, 3], [3], log, [])
    assert judged.violations == 0
    assert (judged.completed, judged.left, judged.dead, judged.starts) == (2, 1, 0, 1)


def test_a_lost_task(effects: Connection, tmp_path: Path) -> None:
    assert judge(effects, [1], [], log_of(tmp_path / "log"), []).lost == [1]


def test_a_task_outside_the_database_whose_handler_never_ended(
    effects: Connection, tmp_path: Path
) -> None:
    log = log_of(tmp_path / "log", "start 1 1 7 99 0.1")
    assert judge(effects, [1], [1], log, []).lost == [1]


def test_a_doubled_effect(effects: Connection, tmp_path: Path) -> None:
    effects.execute("insert into effect values (1, 1), (1, 2)")
    assert judge(effects, [1], [], log_of(tmp_path / "log"), []).doubled == [1]


def test_a_dead_task_with_attempts_left(effects: Connection, tmp_path: Path) -> None:
    effects.execute(
        "insert into runner.task (task_id, task_type, state, attempt, max_attempts, cause)"
        " values (1, 'quick', 'dead', 49, 50, 'ValueError'), (2, 'quick', 'dead', 50, 50, 'SIGKILL')"
    )
    judged = judge(effects, [1, 2], [], log_of(tmp_path / "log"), [])
    assert (judged.gave_up, judged.dead, judged.violations) == ([1], 2, 1)


def test_an_effect_whose_task_is_still_there(effects: Connection, tmp_path: Path) -> None:
    effects.execute("insert into effect values (1, 1)")
    effects.execute("insert into runner.task (task_id, task_type) values (1, 'quick')")
    assert judge(effects, [1], [], log_of(tmp_path / "log"), []).undeleted == [1]


def test_an_overlap(effects: Connection, tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", "overlap 1 1 7 99 0.1")
    assert judge(effects, [], [], log, []).overlaps == [1]


def test_a_log_is_read_as_it_grows(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", "start 1 1 7 99 0.1")
    with log.path.open("a") as file:
        file.write("start 2 1 7 99 0.1\nstart 3")
        file.flush()
        log.follow()
        assert log.starts == 2
        file.write(" 1 7 99 0.1\n")
    log.follow()
    assert log.starts == 3


def test_a_program_that_outlives_its_attempt(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        worker = os.getpid()
        log = log_of(tmp_path / "log", f"program 1 1 7 {worker} 0.1 {child.pid}")
        census = Census(log)
        census.look(0.0, quiet_since=0.0)
        census.look(100.0, quiet_since=0.0)
        assert census.strays == []  # its attempt is not over
        with log.path.open("a") as file:
            file.write(f"end 1 1 7 {worker} 0.2\n")
        log.follow()
        census.look(100.0, quiet_since=0.0)
        census.look(100.1 + STRAY_SECONDS, quiet_since=101.0)
        assert census.strays == []  # whoever should end it stood still meanwhile
        assert census.left_at_the_end() == [child.pid]
        census.look(101.1 + STRAY_SECONDS, quiet_since=101.0)
        assert census.strays == [child.pid]
        assert born(child.pid)
        child.send_signal(signal.SIGKILL)
        wait_until(lambda: gone(child.pid))
