"""`explain` against the truth: each situation is made in the database, and told as it is there."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from runner.operating.circumstances import Facts
from runner.operating.explain import Explanation, Gone, explain, explain_gone
from runner.store import operate
from runner.store.facts import facts
from tests.db.stage import Claimer, add, announce, one
from tests.servers import Connection

pytestmark = pytest.mark.db


def told(db: Connection, task_id: int) -> Explanation:
    found = facts(db, task_id)
    return explain_gone(found) if isinstance(found, Gone) else explain(found)


def seen(db: Connection, task_id: int) -> Facts:
    found = facts(db, task_id)
    assert isinstance(found, Facts)
    return found


def hold(db: Connection, task_id: int, worker: UUID) -> None:
    """What a claim writes."""
    db.execute(
        """update runner.task set state = 'running', lease_owner = %s, attempt = attempt + 1,
                  max_attempts = coalesce(max_attempts, 5), claimed_at = clock_timestamp(),
                  fence = greatest(fence + 1, 1) where task_id = %s""",
        [worker, task_id],
    )


def change(db: Connection, task_id: int, text: str) -> None:
    db.execute(f"update runner.task set {text} where task_id = %s", [task_id])


def iso(moment: datetime) -> str:
    """As the command line writes it: PostgreSQL leaves out the last zeros of a fraction."""
    whole, _, fraction = moment.astimezone(UTC).isoformat().removesuffix("+00:00").partition(".")
    return f"{whole}.{fraction.rstrip('0')}".rstrip(".") + "+00:00"


def test_scheduled_says_until_when(db: Connection) -> None:
    (task,) = add(db, run_at="2030-01-31 12:00:00+02")
    assert told(db, task).reason == "scheduled"
    assert "until 2030-01-31T10:00:00+00:00 (in " in told(db, task).sentence


def test_backing_off_says_after_which_failure(db: Connection) -> None:
    (task,) = add(db, run_at="2030-01-31 12:00:00+00")
    change(
        db,
        task,
        "attempt = 2, max_attempts = 5, cause = 'ValueError', last_error = 'ValueError: x'",
    )
    assert told(db, task).reason == "backing off"
    assert "after failure 2 of 5 until 2030-01-31T12:00:00+00:00" in told(db, task).sentence
    assert told(db, task).sentence.endswith(": ValueError: x")


def test_snoozed_and_interrupted(db: Connection) -> None:
    (task,) = add(db, run_at="2030-01-31 12:00:00+00")
    change(db, task, "cause = 'snoozed'")
    assert told(db, task).reason == "snoozed"
    change(db, task, "cause = 'lease lost', released = 3, attempt = 1, max_attempts = 5")
    assert told(db, task).reason == "interrupted"
    assert "interrupted 3 times without charge (dead after 15)" in told(db, task).sentence
    assert told(db, task).sentence.endswith("last: lease lost; 1 of 5 attempts spent")


def test_due_and_waiting_for_a_pass(db: Connection) -> None:
    (task,) = add(db, run_at="2030-01-31 12:00:00+00")
    change(db, task, "run_at = '2020-01-31 12:00:00+00'")
    assert told(db, task).reason == "no worker"
    announce(db, "t")
    assert told(db, task).reason == "due"
    assert "2020-01-31T12:00:00+00:00" in told(db, task).sentence


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("infinity", "for ever (run_at is infinity)"),
        ("12000-01-31 12:00+00", "until 12000-01-31T12:00:00+00:00"),
    ],
)
def test_times_that_python_cannot_read(db: Connection, moment: str, shown: str) -> None:
    (task,) = add(db, run_at=moment)
    assert shown in told(db, task).sentence
    change(db, task, "run_at = '-infinity'")
    assert "since -infinity" in told(db, task).sentence
    change(db, task, "run_at = '0044-03-15 12:00:00+00 BC'")
    assert "since 0044-03-15T12:00:00+00:00 BC" in told(db, task).sentence


@pytest.mark.parametrize(
    ("queue", "task_type", "what"),
    [
        ("mail", None, "queue mail"),
        (None, "t", "type t"),
        ("mail", "t", "type t in queue mail"),
    ],
)
def test_paused_says_what_and_until_when(
    db: Connection, queue: str | None, task_type: str | None, what: str
) -> None:
    (task,) = add(db, queue="mail")
    claimer = Claimer(db, "t")
    operate.pause(db, queue, task_type, who="me")
    assert told(db, task).sentence.endswith(f"its {what} is paused until it is resumed")
    operate.pause(db, queue, task_type, delay=600.0, who="me")
    end = one(db, "select until from runner.pause")
    assert told(db, task).sentence.endswith(f"paused until {iso(end)}")
    assert claimer.take() is None
    db.execute("update runner.pause set until = clock_timestamp()")
    assert told(db, task).reason == "ready"
    assert claimer.take() is not None


def test_of_several_pauses_the_longest_is_told(db: Connection) -> None:
    (task,) = add(db, queue="mail")
    operate.pause(db, "mail", None, delay=60.0, who="me")
    operate.pause(db, None, "t", who="me")
    operate.pause(db, "other", None, who="me")
    assert "type t is paused until it is resumed" in told(db, task).sentence


def test_nobody_alive_unknown_type_queue_not_served(db: Connection) -> None:
    (task,) = add(db, queue="mail")
    assert told(db, task).reason == "no worker"
    announce(db, "t", lease=3.0)
    db.execute("update runner.worker set lease_until = clock_timestamp() - interval '1 s'")
    assert told(db, task).reason == "no worker"
    other = Claimer(db, "u")
    assert told(db, task).reason == "unknown type"
    assert other.take() is None
    announce(db, "t", queues=["else"])
    assert told(db, task).reason == "queue not served"
    assert "none of the workers that serve its queue mail has a handler" in told(db, task).sentence
    db.execute("delete from runner.worker where worker_id = %s", [other.worker_id])
    assert told(db, task).sentence.endswith("no worker alive serves its queue mail")


def test_all_busy(db: Connection) -> None:
    task, held = add(db, count=2)
    worker = announce(db, "t")
    hold(db, held, worker)
    assert told(db, task).sentence.endswith("the one worker that could take it is busy")
    (urgent,) = add(db, priority=1)
    assert "1 task of a smaller priority number than its 5 go first" in told(db, task).sentence
    announce(db, "t")
    assert told(db, urgent).reason == "ready"


def test_behind_a_class_counts_what_goes_first(db: Connection) -> None:
    (task,) = add(db, priority=7)
    add(db, count=3, priority=2)
    add(db, count=2, priority=9)
    add(db, "unknown", count=4, priority=0)
    add(db, "paused", count=4, priority=0)
    operate.pause(db, None, "paused", who="me")
    claimer = Claimer(db, "t", "paused")
    assert told(db, task).reason == "behind a class"
    assert "behind 3 tasks of a smaller priority number than its 7" in told(db, task).sentence
    for _ in range(3):
        row = claimer.take()
        assert row is not None
        assert row.priority == 2
        db.execute("delete from runner.task where task_id = %s", [row.task_id])
    assert told(db, task).reason == "ready"
    row = claimer.take()
    assert row is not None
    assert row.task_id == task


def test_many_ahead_are_counted_to_a_bound(db: Connection) -> None:
    (task,) = add(db)
    add(db, count=10_050, priority=1)
    announce(db, "t")
    assert "behind more than 10000 tasks" in told(db, task).sentence


def test_just_ready_with_others(db: Connection) -> None:
    task, _ = add(db, count=2)
    announce(db, "t")
    assert told(db, task).reason == "ready"
    assert "1 task of the same priority" in told(db, task).sentence


def test_too_little_lease_to_claim(db: Connection) -> None:
    (task,) = add(db)
    announce(db, "t", lease=30.0)
    db.execute("update runner.worker set lease_until = clock_timestamp() + interval '16 s'")
    assert told(db, task).reason == "lease too short"
    db.execute("update runner.worker set lease_until = clock_timestamp() + interval '18 s'")
    assert told(db, task).reason == "ready"


def test_left_by_the_drain_in_which_it_failed(db: Connection) -> None:
    (task,) = add(db)
    runner = uuid4()
    values = [runner, "host", 1, "30 s"]
    db.execute(
        "insert into runner.runner (runner_id, host, pid, lease) values (%s, %s, %s, %s)", values
    )
    announce(db, "t", runner_id=runner)
    announce(db, role="drain", runner_id=runner)
    assert told(db, task).reason == "ready"
    change(db, task, "last_failed_at = clock_timestamp()")
    assert told(db, task).reason == "left by drain"


def test_running_says_where_and_how_long(db: Connection) -> None:
    (task,) = add(db)
    worker = announce(db, "t", host="box", pid=4711, slot=3, lease=60.0)
    hold(db, task, worker)
    sentence = told(db, task).sentence
    assert "is running: attempt 1 of 5 by pid 4711 on box (slot 3) for " in sentence
    left = one(db, "select extract(epoch from lease_until - clock_timestamp()) from runner.worker")
    holder = seen(db, task).holder
    assert holder is not None
    assert abs(holder.lease_seconds - float(left)) < 1
    assert "not renewed" not in sentence
    db.execute("update runner.worker set lease_until = clock_timestamp() + interval '25 s'")
    assert "its lease was not renewed for 35." in told(db, task).sentence
    (second,) = add(db)
    hold(db, second, worker)
    assert (
        "is held by pid 4711 on box (slot 3), which runs it and 1 other task"
        in told(db, task).sentence
    )


def test_lease_expired_and_orphaned(db: Connection) -> None:
    (task,) = add(db)
    worker = announce(db, "t", host="box", pid=4711)
    hold(db, task, worker)
    db.execute("update runner.worker set lease_until = clock_timestamp() - interval '90 s'")
    assert told(db, task).reason == "lease expired"
    assert "pid 4711 on box (slot 0), whose lease expired 1m30s ago" in told(db, task).sentence
    assert "no worker is alive" in told(db, task).sentence
    announce(db, "t")
    assert told(db, task).sentence.endswith("the next sweep takes it back")
    db.execute("delete from runner.worker where worker_id = %s", [worker])
    assert told(db, task).reason == "orphaned"
