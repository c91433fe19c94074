"""What the console asks the database, and what it has it do."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from runner.clock import now
from runner.console.gather import Gatherer
from runner.store import looking, overview
from tests.db.stage import add, announce, one
from tests.servers import Connection

pytestmark = pytest.mark.db
FAILED = {"attempt": 2, "max_attempts": 5, "fence": 9, "cause": "ValueError"}


@pytest.fixture
def gatherer(db_url: str) -> Iterator[Gatherer]:
    found = Gatherer(db_url, "me@here")
    yield found
    found.close()


def look(gatherer: Gatherer, interval: float = 1.0) -> Any:
    return gatherer.answer({"ask": "look", "interval": interval})["look"]


def test_a_look(db: Connection, gatherer: Gatherer) -> None:
    announce(db, "ordinary")
    add(db, task_type="ordinary")
    add(db, task_type="strange", count=2)
    begun = now()
    found = look(gatherer)
    assert begun <= found["counted_at"] <= found["taken_at"] <= now()
    assert (found["status"]["ready"], found["status"]["unknown"]) == (3, 2)
    assert found["where"].startswith("runner_")


def test_an_idle_worker_runs_nothing_for_no_time(db: Connection) -> None:
    announce(db, "ordinary")
    (worker,) = overview.workers(db)
    assert (worker["state"], worker["task"], worker["run_seconds"]) == ("idle", None, None)


def test_a_worker_with_a_batch_is_one_worker(db: Connection) -> None:
    held = {"state": "running", "lease_owner": announce(db, "ordinary"), "claimed_at": "2026-01-01"}
    tasks = add(db, task_type="ordinary", count=3, **held)
    (worker,) = overview.workers(db)
    assert (worker["state"], worker["task"]) == ("running", tasks[0])


def test_counting_again_waits_for_the_interval_and_not_after_a_deed(
    db: Connection, gatherer: Gatherer
) -> None:
    add(db, task_type="ordinary")
    assert look(gatherer, 1000.0)["status"]["ready"] == 1
    add(db, task_type="ordinary")
    assert look(gatherer, 1000.0)["status"]["ready"] == 1
    gatherer.answer({"ask": "pause", "queue": "default"})
    found = look(gatherer, 1000.0)
    assert found["status"]["ready"] == 2
    assert found["status"]["queues"][0]["paused_until"] == "infinity"


def test_the_last_dead_and_what_fails(db: Connection) -> None:
    dead = FAILED | {"state": "dead", "attempt": 5}
    ids = [
        add(db, **dead, last_error=f"ValueError: {n}", last_failed_at=f"2026-01-0{n}")[0]
        for n in (2, 3, 1)
    ]
    found = looking.last_dead(db, 2)
    assert [row["id"] for row in found] == [ids[1], ids[0]]
    assert found[0]["last_error"] == "ValueError: 3"
    for n in (1, 2):
        add(db, **FAILED, last_error=f"ValueError: {n}", last_failed_at=f"2026-01-0{n}")
    (row,) = looking.failing(db, 5)
    assert (row["count"], row["cause"], row["error"]) == (2, "ValueError", "ValueError: 2")


def test_times_beyond_what_python_reads(db: Connection, gatherer: Gatherer) -> None:
    add(db, **FAILED, last_failed_at="-infinity", run_at="infinity", state="scheduled")
    add(db, **FAILED | {"state": "dead", "attempt": 5}, last_failed_at="infinity")
    found = look(gatherer)
    assert (len(found["dead"]), len(found["failing"])) == (1, 1)


@pytest.mark.parametrize(
    ("request_", "said", "left"),
    [
        ({"ask": "requeue", "type": "a"}, "requeued 2 tasks", {"ready": 2, "dead": 1}),
        ({"ask": "discard", "queue": "default"}, "discarded 3 tasks", {}),
        ({"ask": "cancel", "ids": [1]}, "nothing changed: task 1 is gone", {"dead": 3}),
    ],
)
def test_deeds(
    db: Connection, gatherer: Gatherer, request_: dict[str, Any], said: str, left: dict[str, int]
) -> None:
    dead = FAILED | {"state": "dead", "attempt": 5}
    add(db, **dead, task_type="a", count=2)
    add(db, **dead, task_type="b")
    assert gatherer.answer(request_) == {"said": said}
    states = db.execute("select state, count(*) from runner.task group by 1").fetchall()
    assert dict(states) == left


def test_details_tell_why(db: Connection, gatherer: Gatherer) -> None:
    dead = FAILED | {"state": "dead", "attempt": 5}
    (task,) = add(db, **dead, last_error="ValueError: x", params=Jsonb({"a": [1, "b"]}))
    details = gatherer.answer({"ask": "show", "id": task})["details"]
    lines = dict(details["lines"])
    assert details["title"] == f"task {task}"
    assert "dead" in lines["why"]
    assert lines["params"] == '{\n "a": [\n  1,\n  "b"\n ]\n}'
    assert lines["last error"] == "ValueError: x"
    gone = gatherer.answer({"ask": "show", "id": task + 1000})["details"]
    assert [label for label, _ in gone["lines"]] == ["why"]


def test_trouble_is_told_and_ends(db: Connection, gatherer: Gatherer) -> None:
    look(gatherer)
    end = "select count(pg_terminate_backend(pid)) from pg_stat_activity"
    assert one(db, f"{end} where application_name = 'runner console'") == 1
    answer = gatherer.answer({"ask": "look", "interval": 1.0})
    assert not answer["kept"]
    assert "look" in gatherer.answer({"ask": "look", "interval": 1.0})


def test_a_refused_statement_keeps_the_connection(db: Connection, gatherer: Gatherer) -> None:
    look(gatherer)
    answer = gatherer.answer({"ask": "pause", "queue": "\0"})
    assert answer["kept"]


def test_no_database_is_trouble_without_secrets() -> None:
    gatherer = Gatherer("postgresql://u:canary@127.0.0.1:1/x", "me")
    answer = gatherer.answer({"ask": "look", "interval": 1.0})
    assert "canary" not in answer["trouble"]
    assert "127.0.0.1" in answer["trouble"]
