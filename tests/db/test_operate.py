"""What people do to tasks: each verb on every state, and many at once among those who claim."""

from collections import Counter
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from runner.errors import LeaseLost
from runner.store import ending, operate, tasks
from runner.store.connect import connect
from runner.store.tasks import Filter
from runner.text import storable
from tests.data import NAUGHTY
from tests.db.stage import Background, Claimer, add, announce, one, row
from tests.servers import Connection

pytestmark = pytest.mark.db
DEAD: dict[str, Any] = {
    "state": "dead",
    "attempt": 5,
    "max_attempts": 5,
    "released": 2,
    "solo": True,
    "fence": 17,
    "cause": "ValueError",
    "last_error": "ValueError: x",
}
cancel = operate.remover("cancelled", "me")
discard = operate.remover("discarded", "me")


def heard(conn: psycopg.Connection[Any]) -> list[str]:
    return [each.payload for each in conn.notifies(timeout=0.2)]


def test_requeue_gives_all_attempts_and_keeps_the_fence(db: Connection, db_url: str) -> None:
    (task,) = add(db, **DEAD, run_at="2030-01-01")
    before = row(db, task).shuffle
    with psycopg.connect(db_url, autocommit=True) as ear:
        ear.execute("listen runner")
        assert operate.requeue(db, [task], ["dead"]) == [task]
        assert heard(ear) == ["1 "]
        assert operate.requeue(db, [task], ["dead"]) == []
        assert heard(ear) == []
    found = row(db, task)
    assert (found.state, found.attempt, found.released, found.solo) == ("ready", 0, 0, False)
    assert (found.fence, found.max_attempts, found.last_error) == (17, 5, "ValueError: x")
    assert found.shuffle != before
    assert one(db, "select run_at <= clock_timestamp() from runner.task")
    claimed = Claimer(db, "t").take()
    assert claimed is not None
    assert (claimed.attempt, claimed.fence > 17) == (1, True)


def test_requeue_of_a_scheduled_one_means_now(db: Connection) -> None:
    (task,) = add(db, run_at="infinity")
    assert operate.change_named(db, [task], ["dead", "scheduled"], operate.requeue) == ([task], {})
    assert row(db, task).state == "ready"


def test_what_is_in_another_state_stays(db: Connection) -> None:
    ready, running, gone = add(db, count=3)
    hold(db, running)
    db.execute("delete from runner.task where task_id = %s", [gone])
    done, others = operate.change_named(db, [ready, running, gone], ["dead"], discard)
    assert (done, others) == ([], {ready: "ready", running: "running", gone: None})
    assert one(db, "select count(*) from runner.removed") == 0


def hold(db: Connection, task_id: int) -> None:
    db.execute(
        """update runner.task set state = 'running', lease_owner = %s, attempt = 1, fence = 1,
                  max_attempts = 5, claimed_at = clock_timestamp() where task_id = %s""",
        [announce(db, "t"), task_id],
    )


def test_cancel_in_any_state_leaves_a_line(db: Connection) -> None:
    ready, running, dead = add(db, count=3)
    (scheduled,) = add(db, run_at="infinity")
    hold(db, running)
    db.execute("update runner.task set state = 'dead' where task_id = %s", [dead])
    named = [ready, running, dead, scheduled]
    assert operate.change_named(db, named, operate.EVERY_STATE, cancel) == (named, {})
    assert one(db, "select count(*) from runner.task") == 0
    lines = db.execute("select task_id, task_type, how, who from runner.removed order by 1")
    who = f"me ({db.info.user})"
    assert lines.fetchall() == [(each, "t", "cancelled", who) for each in sorted(named)]


def test_one_that_is_just_completing_is_not_waited_for(db: Connection, db_url: str) -> None:
    """Completed: it is done, and no line says otherwise. Rolled back: then it is cancelled."""
    for commit in (True, False):
        (task,) = add(db)
        hold(db, task)
        with psycopg.connect(db_url) as completing:
            completing.execute("delete from runner.task where task_id = %s", [task])
            call = Background(lambda one=task: named(db_url, one))
            while not call.done and not attempts(db):
                pass
            completing.commit() if commit else completing.rollback()
            assert call.result() == (([], {task: None}) if commit else ([task], {}))
        assert one(db, "select count(*) from runner.removed where task_id = %s", task) == (
            not commit
        )


def attempts(db: Connection) -> bool:
    """Whether the other session has looked at the states at least once."""
    query = "select count(*) from pg_stat_activity where application_name = 'runner cancel'"
    return bool(one(db, query + " and query like '%%select task_id, state%%'"))


def named(url: str, task: int) -> Any:
    with connect(url, "cancel") as conn:
        return operate.change_named(conn, [task], operate.EVERY_STATE, cancel)


def test_a_locked_one_is_given_up_after_a_while(
    db: Connection, db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operate, "LOCKED_SECONDS", 0.001)
    (task,) = add(db)
    with psycopg.connect(db_url) as other:
        other.execute("select from runner.task for update")
        assert operate.change_named(db, [task], ["ready"], cancel) == ([], {task: "ready"})


def test_a_completion_after_a_cancel_finds_nothing(db: Connection) -> None:
    (task,) = add(db)
    claimer = Claimer(db, "t")
    claimed = claimer.take()
    assert claimed is not None
    assert cancel(db, [task], operate.EVERY_STATE) == [task]
    with pytest.raises(LeaseLost):
        ending.complete(db, claimer.worker_id, task, claimed.fence)


FILTERS = [
    (Filter(), {1, 2, 3, 4, 5}),
    (Filter(states=["dead"]), {2, 3, 4}),
    (Filter(types=["mail"]), {1, 2, 3}),
    (Filter(types=["mail", "other"], states=["dead"]), {2, 3, 4}),
    (Filter(queues=["slow"]), {3, 5}),
    (Filter(error="timeout"), {2}),
    (Filter(error="TIMEOUT: 30%"), {2}),
    (Filter(error="valueerror"), {3}),
    (Filter(error="%"), {2}),
    (Filter(error="_"), set()),
    (Filter(older_than=3600.0), {1, 3}),
    (Filter(older_than=3600.0, states=["dead"]), {3}),
    (Filter(queues=["nope"]), set()),
]


@pytest.mark.parametrize(("chosen", "expected"), FILTERS, ids=str)
def test_filters(db: Connection, chosen: Filter, expected: set[int]) -> None:
    """`older_than` of a dead task counts from its death, of another from its birth."""
    old, new = "2020-01-01 00:00+00", "2029-01-01 00:00+00"
    first = add(db, "mail", created_at=old)
    first += add(
        db, "mail", state="dead", last_error="Timeout: 30%", created_at=old, last_failed_at=new
    )
    first += add(db, "mail", queue="slow", state="dead", cause="ValueError", last_failed_at=old)
    first += add(db, "other", state="dead", last_failed_at=new)
    first += add(db, "other", queue="slow", run_at="infinity")
    found = [first.index(record["id"]) + 1 for record in tasks.tasks(db, chosen)]
    assert set(found) == expected
    assert found == sorted(found)
    assert tasks.count(db, chosen) == len(expected)


def test_pages_limits_and_where_to_begin(db: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "PAGE", 3)
    added = add(db, count=10)
    for limit in (1, 2, 3, 4, 6, 9, 10, 11, None):
        assert [each["id"] for each in tasks.tasks(db, Filter(), limit=limit)] == added[:limit]
    assert [each["id"] for each in tasks.tasks(db, Filter(after=added[4]))] == added[5:]


def test_change_all_goes_chunk_by_chunk_and_leaves_the_locked(
    db: Connection, db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operate, "CHUNK", 4)
    dead = add(db, count=10, state="dead")
    add(db, count=2)
    with psycopg.connect(db_url) as other:
        other.execute("select from runner.task where task_id = %s for update", [dead[5]])
        done = list(operate.change_all(db, Filter(states=["dead"]), discard))
    assert done == [4, 3, 2]
    assert {each["id"] for each in tasks.tasks(db, Filter(states=["dead"]))} == {dead[5]}
    assert one(db, "select count(*) from runner.task where state = 'ready'") == 2


def test_odd_times_and_strings_come_through(db: Connection) -> None:
    for moment in ("infinity", "-infinity", "12000-01-01 00:00+00", "0044-03-15 00:00+00 BC"):
        add(db, run_at=moment, created_at=moment)
    shown = [(each["run_at"], each["created_at"]) for each in tasks.tasks(db, Filter(), whole=True)]
    assert shown == [
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
        ("12000-01-01T00:00:00+00:00", "12000-01-01T00:00:00+00:00"),
        ("0044-03-15T00:00:00+00:00 BC", "0044-03-15T00:00:00+00:00 BC"),
    ]
    assert list(operate.change_all(db, Filter(states=["scheduled", "ready"]), operate.requeue)) == [
        4
    ]
    assert set(Counter(each["run_at"][:2] for each in tasks.tasks(db, Filter()))) == {"20"}


def test_naughty_strings(db: Connection) -> None:
    texts = [storable(text) for text in NAUGHTY]
    texts = [text for text in texts if 0 < len(text.encode()) <= 63]
    for text in texts:
        add(db, text, queue=text, params=Jsonb({text: text}), last_error=text, state="dead")
    for text in texts:
        chosen = Filter(types=[text], queues=[text], error=text)
        found = [each["type"] for each in tasks.tasks(db, chosen, whole=True)]
        assert text in found


def test_what_jsonb_holds_and_python_does_not(db: Connection) -> None:
    digits = "9" * 5000
    (task,) = add(db, params=f'[1e400, {digits}, "\u007f"]')
    (found,) = tasks.tasks(db, Filter(ids=[task]), whole=True)
    assert digits in found["params"]


# -- pauses ---------------------------------------------------------------------------------------


def test_pause_again_changes_the_end(db: Connection) -> None:
    told = operate.pause(db, "mail", None, who="me")
    assert told is not None
    assert told["paused_until"] == "infinity"
    told = operate.pause(db, "mail", None, delay=60.0, who="you")
    assert told is not None
    assert told["paused_until"].endswith("+00:00")
    assert one(db, "select count(*) from runner.pause") == 1
    assert one(db, "select who from runner.pause") == f"you ({db.info.user})"


def test_resume_ends_exactly_that_pause_and_wakes(db: Connection, db_url: str) -> None:
    operate.pause(db, "mail", None, who="me")
    operate.pause(db, None, "t", who="me")
    operate.pause(db, "mail", "t", who="me")
    with psycopg.connect(db_url, autocommit=True) as ear:
        ear.execute("listen runner")
        assert operate.resume(db, "other", None) == []
        assert heard(ear) == []
        assert operate.resume(db, "mail", None) == [{"queue": "mail", "type": None}]
        assert heard(ear) == ["1000 "]
    assert operate.resume(db, "mail", "t") == [{"queue": "mail", "type": "t"}]
    assert operate.resume_all(db) == [{"queue": None, "type": "t"}]


def test_a_pause_that_is_over_needs_no_resume(db: Connection) -> None:
    operate.pause(db, "mail", None, who="me")
    db.execute("update runner.pause set until = clock_timestamp()")
    assert operate.resume(db, "mail", None) == []


# -- many at once (P-49) --------------------------------------------------------------------------


def test_claims_and_mass_changes_side_by_side(db: Connection, db_url: str) -> None:
    """Nobody deadlocks, nothing is lost: each task is completed once or removed once."""
    add(db, count=600)
    add(db, count=600, **DEAD)

    def work() -> int:
        done = 0
        with connect(db_url, "test") as conn:
            claimer = Claimer(conn, "t")
            while tasks.count(conn, Filter(states=["ready", "dead"])):
                found = claimer.take()
                if found is not None:
                    done += conn.execute(
                        "delete from runner.task where task_id = %s and fence = %s",
                        [found.task_id, found.fence],
                    ).rowcount
        return done

    def operate_on() -> int:
        removed = 0
        with connect(db_url, "test") as conn:
            while tasks.count(conn, Filter(states=["dead"])):
                some = tasks.ids(conn, Filter(states=["dead"]), 40)
                operate.requeue(conn, some[::2], ["dead"])
                removed += len(discard(conn, some[1::2], ["dead"]))
                some = tasks.ids(conn, Filter(states=["ready"]), 5)
                removed += len(cancel(conn, some, operate.EVERY_STATE))
        return removed

    calls = [Background(work), Background(work), Background(operate_on), Background(operate_on)]
    total = sum(call.result() for call in calls)
    assert total == 1200
    assert one(db, "select count(*) from runner.task") == 0
    assert one(db, "select count(*) = count(distinct task_id) from runner.removed")
