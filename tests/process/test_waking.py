"""Who wakes when there is something to do: as many as are needed, and nobody in vain."""

import re
import sys
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest

from tests import fleets
from tests.servers import process_state, wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]

WORKERS, ROUNDS = 4, 10
END_ALL = """select pg_terminate_backend(pid, 5000) from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid()"""


def sleeps(pid: int) -> int:
    """How often the main thread of a process went to sleep by itself."""
    status = Path(f"/proc/{pid}/task/{pid}/status").read_text()
    return int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[0])


def calm(pids: Collection[int]) -> bool:
    """Whether all of them sleep, and have slept for a while."""
    before = [sleeps(pid) for pid in pids]
    time.sleep(0.05)
    asleep = all(process_state(pid) == "S" for pid in pids)
    return asleep and [sleeps(pid) for pid in pids] == before


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all of them look who was first")
def test_one_task_wakes_one_worker(fresh: str, tmp_path: Path) -> None:
    """The same one each time, and the others sleep on. Where the machine is slow one or other of them
    says just then that it is alive, or the eldest is not yet asleep again."""
    woken = []
    with fleets.work(fresh, tmp_path) as work:
        with fleets.running(fresh, tmp_path, "--poll", "10s", procs=WORKERS) as fleet:
            pids = fleets.wait_registered(work, WORKERS).values()
            tasks = work.add("ordinary")
            wait_until(work.empty, 20, "they serve")
            time.sleep(1.0)  # what has just begun to idle is woken once more, to look again
            for _ in range(ROUNDS):
                wait_until(lambda: calm(pids), 20)
                before = {pid: sleeps(pid) for pid in pids}
                tasks += work.add("ordinary")
                wait_until(work.empty, 20)
                wait_until(lambda: calm(pids), 20)
                woken.append([pid for pid in pids if sleeps(pid) != before[pid]])
            assert fleet.stop() == 0
        work.exactly_once(tasks)
    alone = Counter(some[0] for some in woken if len(some) == 1)
    assert max(alone.values(), default=0) > ROUNDS / 2, woken


def test_as_many_are_woken_as_there_are_tasks(fresh: str, tmp_path: Path) -> None:
    with fleets.work(fresh, tmp_path) as work:
        with fleets.running(fresh, tmp_path, "--poll", "10s", procs=WORKERS) as fleet:
            pids = fleets.wait_registered(work, WORKERS).values()
            wait_until(lambda: calm(pids), 20)
            tasks = work.add("sleepy", WORKERS, seconds=3)
            wait_until(work.empty, 40)
            assert fleet.stop() == 0
        work.exactly_once(tasks)
        # Who is through takes another one: of those that are still waiting then.
        assert len({pid for _, _, _, _, pid, _ in work.noted("start")}) == WORKERS


def test_who_has_lost_its_session_wakes_another(fresh: str, tmp_path: Path) -> None:
    """Else the task waits until the one that was woken has connected anew. One that is quick may be
    first all the same, so it is tried more than once."""
    elsewhere = []
    with fleets.work(fresh, tmp_path) as work:
        with fleets.running(fresh, tmp_path, "--poll", "10s", procs=WORKERS) as fleet:
            fleets.wait_registered(work, WORKERS)
            tasks = work.add("ordinary")
            wait_until(work.empty, 20, "they serve")
            for _ in range(ROUNDS):
                *_, eldest, _ = work.noted("start")[-1]
                wait_until(lambda pid=eldest: end_session(work, int(pid)), 20)  # type: ignore[misc]
                tasks += work.add("ordinary")
                wait_until(work.empty, 20)
                elsewhere.append(work.noted("start")[-1][4] != eldest)
                fleets.wait_registered(work, WORKERS)
            assert fleet.stop() == 0
        work.exactly_once(tasks)
    assert elsewhere.count(True) > ROUNDS / 2


def end_session(work: fleets.Work, pid: int) -> bool:
    """End the session of this worker, if it is registered; whether it was."""
    query = """select pg_terminate_backend(backend_pid, 5000) from runner.worker where pid = %s"""
    return bool(work.conn.execute(query, [pid]).fetchone())


def test_a_task_need_not_wait_for_the_poll_after_an_outage(fresh: str, tmp_path: Path) -> None:
    """Nobody heard of it, and the sessions with which it is looked for ended in the outage."""
    with fleets.work(fresh, tmp_path) as work:
        with fleets.running(fresh, tmp_path, "--poll", "60s", procs=WORKERS) as fleet:
            fleets.wait_registered(work, WORKERS)
            tasks = work.add("ordinary")
            wait_until(work.empty, 20, "they serve")
            time.sleep(1.0)  # who has just begun to idle looks again by itself
            work.conn.execute(END_ALL)
            tasks += work.add("ordinary")
            wait_until(work.empty, 30)
            assert fleet.stop() == 0
        work.exactly_once(tasks)
