"""What is known of a handler whose process was killed or crashed: kept with the task, and shown."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run
from tests.fleets import Work, running, wait_registered, work
from tests.servers import wait_until

pytestmark = [pytest.mark.db, pytest.mark.process]
CGROUPS = Path("/sys/fs/cgroup")


def died(queue: Work, task: int, within: float = 30) -> dict[str, Any]:
    """The row of a task once something is written of its death."""

    def row() -> dict[str, Any] | None:
        found = queue.row(task)
        return found if found is not None and found["post_mortem"] else None

    return wait_until(row, within, "its death is described")


def test_a_handler_that_holds_the_interpreter_is_described_too(fresh: str, tmp_path: Path) -> None:
    """No Python runs in its process, not even the thread that hears of its lease."""
    options = ("--timeout", "1s", "--lease", "30s", "--renew", "5s")
    with work(fresh, tmp_path) as queue, running(fresh, tmp_path, *options, procs=1):
        (task,) = queue.add("holds_the_gil")
        row = died(queue, task)
        queue.conn.execute("delete from runner.task")
        assert row["cause"] == "time limit"
        assert row["post_mortem"].endswith(" in holds_the_gil")


def test_a_handler_stuck_in_c_is_killed_and_its_stack_is_shown(fresh: str, tmp_path: Path) -> None:
    with work(fresh, tmp_path) as queue:
        (task,) = queue.add("in_c")
        with running(fresh, tmp_path, "--timeout", "1s", "--log-format", "json", procs=1) as fleet:
            row = died(queue, task)
            assert row["cause"] == "time limit"
            shown = run("show", str(task), url=fresh).stdout
            (seen,) = map(
                json.loads, run("show", str(task), "--json", url=fresh).stdout.splitlines()
            )
            queue.conn.execute("delete from runner.task")
            fleet.stop()
        assert seen["post_mortem"] == row["post_mortem"]
        lines = seen["post_mortem"].splitlines()
        assert "most recent call first" in lines[0]
        assert 'chores.py", line' in lines[1]
        assert lines[1].endswith(" in in_c")
        assert len(lines) == 2, "none of our own frames"
        for line in lines:
            assert f"\t{line}\n" in shown
        records = map(json.loads, fleet.log().splitlines())
        told = next(one for one in records if one["event"] == "worker_died")
        assert (told["post_mortem"], told["cause"]) == (row["post_mortem"], "time limit")


def test_a_crash_tells_where_it_was(fresh: str, tmp_path: Path) -> None:
    with work(fresh, tmp_path) as queue, running(fresh, tmp_path, procs=1):
        (task,) = queue.add("segfault")
        row = died(queue, task)
        assert row["cause"] == "SIGSEGV"
        assert " in segfault" in row["post_mortem"]


def test_a_kill_from_outside_tells_the_memory(fresh: str, tmp_path: Path) -> None:
    with work(fresh, tmp_path) as queue, running(fresh, tmp_path, procs=1):
        (task,) = queue.add("selfkill")
        row = died(queue, task)
        assert row["cause"] == "SIGKILL (perhaps out of memory)"
        words = row["post_mortem"].split()
        assert words[:5] == ["its", "process", "had", "up", "to"]
        assert 10 < int(words[5]) < 1000


def test_an_ordinary_failure_tells_file_and_line(fresh: str, tmp_path: Path) -> None:
    with work(fresh, tmp_path) as queue, running(fresh, tmp_path, procs=1):
        (task,) = queue.add("boom")
        queue.conn.execute(
            "update runner.task set post_mortem = 'older' where task_id = %s", [task]
        )
        wait_until(queue.only_dead, 20, "dead")
        row = queue.row(task)
        assert row is not None
        first, second = row["post_mortem"].splitlines()
        assert first == "raised in (most recent call first):"
        assert 'chores.py", line' in second
        assert second.endswith(" in boom")
        assert f"\t{second}\n" in run("show", str(task), url=fresh).stdout


# -- out of memory ----------------------------------------------------------------------------------


@contextmanager
def memory_limited(megabytes: int) -> Iterator[Path]:
    """A control group with so much memory, in the older or the newer layout of the kernel."""
    old = (CGROUPS / "memory").is_dir()
    group = CGROUPS / ("memory" if old else "") / f"runner-test-{os.getpid()}"
    limits = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes") if old else ("memory.max",)
    try:
        group.mkdir()
        for name in limits:
            (group / name).write_text(str(megabytes << 20))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield group
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), 20, "everybody has left")
        group.rmdir()


def test_out_of_memory_is_told_from_other_kills(fresh: str, tmp_path: Path) -> None:
    with memory_limited(150) as group, work(fresh, tmp_path) as queue:
        under = ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")
        with running(fresh, tmp_path, procs=1, under=under) as fleet:
            wait_registered(queue, 1)
            (task,) = queue.add("leaks", megabytes=400)
            row = died(queue, task)
            queue.conn.execute("delete from runner.task")
            assert fleet.stop() == 0
        assert row["cause"] == "out of memory"
        assert 80 < int(row["post_mortem"].split()[5]) < 200
