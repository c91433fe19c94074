"""Cases about what a failure stores: P-43, P-44, P-56."""

import json
import time
from pathlib import Path

import pytest

from runner.text import ERROR_LIMIT
from tests import fleets
from tests.cases.aftermath import DEAD, Scene
from tests.commands import run
from tests.servers import wait_until

pytestmark = [pytest.mark.db, pytest.mark.process]
HABITS = "tests.apps.habits"
LOG_LINE_LIMIT = 4200  # a record of the log pipe, and what the line has in front of it


def resident(pid: int) -> int:
    """Bytes in memory of a process."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * 4096


@pytest.mark.case("P-43")
def test_p43_a_lone_surrogate_in_the_error_text(scene: Scene) -> None:
    """The failure is stored, with the surrogate as an escape, and is a failure like any other."""
    work = scene.work
    (task,) = work.add("fails", how="surrogate")
    with scene.fleet("--backoff", "1h:1h", app=HABITS, procs=1):
        wait_until(lambda: (work.row(task) or {}).get("cause"))
    row = work.row(task)
    assert row is not None
    assert (row["state"], row["cause"], row["attempt"]) == ("scheduled", "RuntimeError", 1)
    assert row["last_error"] == r"RuntimeError: name \udce9 of caf\udce9"
    assert not work.effects()


@pytest.mark.case("P-44")
def test_p44_huge_texts_and_many_retries(scene: Scene) -> None:
    """Row, log line and parent stay small, whatever the text and however often; all of it UTF-8."""
    work = scene.work
    scene.expect(DEAD)
    work.conn.execute(
        """insert into runner.task (task_type, params, max_attempts)
           select 'fails', jsonb_build_object('how', how), most from
           (values ('huge', 2), ('wide', 2), ('deep', 20)) t (how, most),
           generate_series(1, case how when 'deep' then 10 else 1 end)"""
    )
    with scene.fleet("--backoff", "10ms:20ms", "--poll", "100ms", app=HABITS) as fleet:
        fleets.wait_registered(work, 4)
        before = resident(fleet.pid)
        wait_until(work.only_dead, 60, "204 attempts")
        assert resident(fleet.pid) - before < 4 << 20
    query = (
        "select max(pg_column_size(t)), max(length(last_error)), sum(attempt) from runner.task t"
    )
    size, length, attempts = work.conn.execute(query).fetchone() or (0, 0, 0)
    assert length <= ERROR_LIMIT
    assert size < 4 * ERROR_LIMIT + 1000
    assert attempts == 204
    query = "select last_error from runner.task where params ->> 'how' = 'wide'"
    (text,) = work.conn.execute(query).fetchone() or ("",)
    assert text.startswith("RuntimeError: \u20ac\U0001f600\u20ac")
    assert text.endswith("\u20ac\U0001f600")
    assert "characters in all" in text
    lines = fleet.log_path.read_bytes().decode("utf-8").splitlines()
    assert max(map(len, lines)) < LOG_LINE_LIMIT


@pytest.mark.case("P-56")
def test_p56_attempts_and_dates_beyond_all_bounds(scene: Scene) -> None:
    """Attempt 5000 waits for the cap; infinity and the year 12000 disturb no look and no requeue."""
    work = scene.work
    tasks = work.add("boom", 2)
    for task, attempt in zip(tasks, (100, 5000), strict=True):
        work.conn.execute(
            "update runner.task set attempt = %s, max_attempts = 10000 where task_id = %s",
            [attempt, task],
        )
    with scene.fleet("--backoff", "1s:64s", app=HABITS, procs=1):
        wait_until(lambda: work.states() == {"scheduled": 2})
        odd = add_odd_dates(work)
        time.sleep(1.2)  # a promotion or two with the odd rows there
    query = """select attempt, cause, extract(epoch from run_at - last_failed_at)::float8
               from runner.task where task_id = any(%s) order by attempt"""
    rows = work.conn.execute(query, [tasks]).fetchall()
    assert [row[:2] for row in rows] == [(101, "ValueError"), (5001, "ValueError")]
    assert all(64 <= row[2] <= 64 * 1.5 for row in rows)
    look_and_requeue(scene, odd)


def add_odd_dates(work: fleets.Work) -> list[int]:
    """Scheduled tasks whose date Python cannot read."""
    cursor = work.conn.execute(
        """insert into runner.task (task_type, state, run_at) values
           ('ordinary', 'scheduled', 'infinity'), ('ordinary', 'scheduled', '12000-01-01T00:00Z')
           returning task_id"""
    )
    return [row[0] for row in cursor.fetchall()]


def look_and_requeue(scene: Scene, odd: list[int]) -> None:
    """Every verb that looks sees them; requeue makes them ready, and they run."""
    work, url = scene.work, scene.work.url
    status = run("status", "--json", url=url)
    assert json.loads(status.stdout)["scheduled"] == 4, status
    listed = [json.loads(line) for line in run("list", "--json", url=url).stdout.splitlines()]
    assert {each["run_at"] for each in listed if each["id"] in odd} == {
        "infinity",
        "12000-01-01T00:00:00+00:00",
    }
    for verb in ("show", "explain"):
        for task in odd:
            assert run(verb, str(task), url=url).returncode == 0
    requeued = run("dead", "requeue", *map(str, odd), "--yes", url=url)
    assert requeued.returncode == 0, requeued
    assert work.states() == {"scheduled": 2, "ready": 2}
    with scene.fleet(app=HABITS, procs=1):
        wait_until(lambda: work.states() == {"scheduled": 2})
    work.exactly_once(odd)
