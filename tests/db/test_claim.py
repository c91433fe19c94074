"""Who gets which task: exactly one claimer, by priority, by chance, and never what is not to be had."""

from collections import Counter

import psycopg
import pytest
from psycopg import errors

from runner.store import ending
from runner.store.claim import Bounds
from runner.store.connect import connect
from tests.db.stage import Background, Claimer, add, announce, consistent, one, row
from tests.servers import Connection

pytestmark = pytest.mark.db


def test_a_claim_writes_who_and_when(db: Connection) -> None:
    (task,) = add(db, params='{"a": [1]}')
    found = Claimer(db, "t").take()
    assert found is not None
    assert (found.task_id, found.task(None).params, found.attempt) == (task, {"a": [1]}, 1)
    stored = row(db, task)
    assert (stored.state, stored.attempt, stored.fence) == ("running", 1, found.fence)
    assert stored.lease_owner == one(db, "select worker_id from runner.worker")
    assert stored.claimed_at is not None
    assert consistent(db)


def test_one_task_goes_to_one_of_many_claimers(db: Connection, db_url: str) -> None:
    conns = [connect(db_url, "test") for _ in range(6)]
    claimers = [Claimer(conn, "t").know(("default", "t", 5)) for conn in conns]
    for _ in range(15):
        (task,) = add(db)
        # All are held at the gate, so that they come to the row together.
        with psycopg.connect(db_url) as gate:
            gate.execute("lock table runner.task in exclusive mode")
            calls = [Background(lambda one=claimer: one.claim(full=True)) for claimer in claimers]
            gate.commit()
        got = [row.task_id for call in calls for row in call.result()]
        assert got == [task]
    for conn in conns:
        conn.close()


def test_many_tasks_each_go_to_one(db: Connection, db_url: str) -> None:
    tasks = add(db, count=120)

    def empty_it() -> list[int]:
        with connect(db_url, "test") as conn:
            claimer = Claimer(conn, "t").know(("default", "t", 5))
            found = []
            while rows := claimer.claim(full=True, wanted=2):
                found += [row.task_id for row in rows]
            return found

    calls = [Background(empty_it) for _ in range(4)]
    got = [task for call in calls for task in call.result()]
    assert sorted(got) == tasks


def test_a_batch_is_never_more_than_wanted(db: Connection) -> None:
    add(db, "a", 5)
    add(db, "b", 5)
    claimer = Claimer(db, "a", "b").look_around()
    assert len(claimer.claim(wanted=3)) == 3
    # All of one kind: a slow task is never claimed behind a fast one.
    for _ in range(2):
        found = claimer.claim(wanted=7)
        assert len({row.task_type for row in found}) == 1
    assert one(db, "select count(*) from runner.task where state = 'running'") == 10


def test_small_priority_first(db: Connection) -> None:
    for priority in (7, 0, 9, 3, 5):
        add(db, priority=priority)
    claimer = Claimer(db, "t")
    got = [claimer.take().priority for _ in range(5)]  # type: ignore[union-attr]
    assert got == [0, 3, 5, 7, 9]


def test_the_case_over_types_comes_before_the_tasks_own_priority(db: Connection) -> None:
    add(db, "late", priority=0)
    add(db, "plain", priority=4)
    add(db, "soon", priority=9)
    claimer = Claimer(db, "late", "plain", "soon", priorities={"soon": 1, "late": 8})
    got = [claimer.take().task_type for _ in range(3)]  # type: ignore[union-attr]
    assert got == ["soon", "plain", "late"]


def test_a_type_with_quotes_in_its_name(db: Connection) -> None:
    odd = 'o\'brien "%s" {x} \\ ; --'
    add(db, odd)
    found = Claimer(db, odd, priorities={odd: 1}).take()
    assert found is not None
    assert found.task_type == odd


def test_kinds_of_one_class_have_equal_chances_whatever_their_size(db: Connection) -> None:
    add(db, "flood", 300)
    add(db, "drop", 60)
    claimer = Claimer(db, "flood", "drop")
    got = Counter(claimer.take().task_type for _ in range(80))  # type: ignore[union-attr]
    # 40 are expected; outside of 20..60 is once in a hundred thousand.
    assert 20 <= got["drop"] <= 60


def test_a_fair_claim_leaves_the_classes_out(db: Connection) -> None:
    add(db, "first", 60, priority=0)
    add(db, "last", 60, priority=9)
    claimer = Claimer(db, "first", "last").look_around()
    got = Counter(row.task_type for _ in range(50) for row in claimer.claim(fair=True))
    assert 10 <= got["last"] <= 40
    got = Counter(row.task_type for _ in range(20) for row in claimer.claim())
    assert got == {"first": 20}


@pytest.mark.parametrize(
    ("queue", "task_type", "until", "free"),
    [
        ("q", None, None, "other"),
        (None, "t", None, "u"),
        ("q", "t", None, "both others"),
        ("q", None, "infinity", "other"),
        ("q", None, "9999-12-31", "other"),
    ],
)
def test_what_is_paused_is_left(
    db: Connection, queue: str | None, task_type: str | None, until: str | None, free: str
) -> None:
    for name in ("q", "r"):
        for kind in ("t", "u"):
            add(db, kind, queue=name)
    db.execute("insert into runner.pause values (%s, %s, %s)", [queue, task_type, until])
    claimer = Claimer(db, "t", "u").look_around()
    got = {(row.queue, row.task_type) for _ in range(10) for row in claimer.claim(wanted=10)}
    paused = {(q, t) for q in "qr" for t in "tu" if queue in (None, q) and task_type in (None, t)}
    assert got == {("q", "t"), ("q", "u"), ("r", "t"), ("r", "u")} - paused
    assert len(got) == {"other": 2, "u": 2, "both others": 3}[free]


def test_a_pause_ends_by_itself(db: Connection) -> None:
    add(db)
    db.execute("insert into runner.pause values ('default', null, clock_timestamp())")
    assert Claimer(db, "t").take() is not None


def test_unknown_types_are_never_claimed(db: Connection) -> None:
    (task,) = add(db, "unknown")
    add(db, "t")
    claimer = Claimer(db, "t")
    assert claimer.take() is not None
    assert claimer.take(full=True, fair=True) is None
    assert row(db, task).attempt == 0


def test_dead_scheduled_and_running_are_never_claimed(db: Connection) -> None:
    worker = announce(db)
    add(db, state="dead")
    add(db, state="scheduled", run_at="2000-01-01")
    add(db, state="running", lease_owner=worker, fence=5)
    claimer = Claimer(db, "t").know(("default", "t", 5))
    assert claimer.claim(full=True) == []


def test_the_first_claim_writes_the_types_max_attempts(db: Connection) -> None:
    (plain,) = add(db)
    (own,) = add(db, max_attempts=9)
    (tried,) = add(db, attempt=7)
    claimer = Claimer(db, "t").look_around()
    claimer.most = {"t": 3}
    assert len(claimer.claim(wanted=3)) == 3
    assert row(db, plain).max_attempts == 3
    assert row(db, own).max_attempts == 9
    assert row(db, tried).max_attempts == 8  # at least this one


def test_the_fence_grows_with_every_claim(db: Connection) -> None:
    (task,) = add(db)
    claimer = Claimer(db, "t", lease=60.0)
    fences = [0]
    for _ in range(5):
        found = claimer.take()
        assert found is not None
        assert found.fence > fences[-1]
        fences.append(found.fence)
        db.execute("update runner.task set state = 'ready', lease_owner = null, attempt = 0")
    assert fences[1] > 1_700_000_000_000_000  # microseconds: across a failover it grows, too
    assert row(db, task).fence == fences[-1]


@pytest.mark.parametrize("ahead", [10**16, 2**62])
def test_a_fence_ahead_of_the_clock_still_grows(db: Connection, ahead: int) -> None:
    add(db, fence=ahead)
    found = Claimer(db, "t").take()
    assert found is not None
    assert found.fence == ahead + 1


def test_drain_bounds(db: Connection) -> None:
    (old,) = add(db, last_failed_at="2001-01-01", created_at="2001-01-01")
    (new,) = add(db, created_at="2002-01-01")
    (failed,) = add(db, last_failed_at="2003-01-01", created_at="2001-01-01")
    bound = one(db, "select timestamptz '2002-06-01'")
    claimer = Claimer(db, "t").look_around()
    got = {found.task_id for found in claimer.claim(wanted=9, bounds=Bounds(failed_before=bound))}
    assert got == {old, new}
    db.execute("update runner.task set state = 'ready', lease_owner = null, attempt = 0")
    bound = one(db, "select timestamptz '2001-06-01'")
    got = {found.task_id for found in claimer.claim(wanted=9, bounds=Bounds(created_before=bound))}
    assert got == {old, failed}


@pytest.mark.parametrize("moment", ["infinity", "-infinity", "12000-01-01", "4000-01-01 BC"])
def test_times_that_python_cannot_read_do_not_stop_a_claim(db: Connection, moment: str) -> None:
    (task,) = add(db, state="ready", created_at=moment, run_at="2000-01-01")
    found = Claimer(db, "t").take()
    assert found is not None
    assert found.task_id == task


def test_a_row_that_somebody_has_locked_is_passed_over(db: Connection, db_url: str) -> None:
    locked, free = add(db, count=2)
    with psycopg.connect(db_url) as other:
        other.execute("select from runner.task where task_id = %s for update", [locked])
        claimer = Claimer(db, "t").look_around()
        assert [found.task_id for found in claimer.claim(wanted=2, full=True)] == [free]
    assert [found.task_id for found in claimer.claim(full=True)] == [locked]


def test_claimed_again_after_a_failure_it_is_another_claim(db: Connection) -> None:
    (task,) = add(db)
    claimer = Claimer(db, "t")
    first = claimer.take()
    assert first is not None
    db.execute("update runner.task set state = 'ready', lease_owner = null")
    second = claimer.take()
    assert second is not None
    assert (second.task_id, second.attempt) == (task, 2)
    with pytest.raises(ending.LeaseLost):
        ending.complete(db, claimer.worker_id, task, first.fence)


def test_a_claim_is_committed_and_durable(db: Connection, db_url: str) -> None:
    db.execute("alter role current_user set synchronous_commit = off")
    try:
        with connect(db_url, "test") as conn:
            assert one(conn, "show synchronous_commit") == "on"
    finally:
        db.execute("alter role current_user reset synchronous_commit")


def test_no_row_outlives_its_attempts(db: Connection) -> None:
    with pytest.raises(errors.CheckViolation):
        add(db, attempt=5, max_attempts=5)
