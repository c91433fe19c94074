"""The passes that keep tasks moving: promote, look, prune, and odd times that must not stop them."""

import random
from uuid import uuid4

import psycopg
import pytest

from runner.backoff import Backoff
from runner.config import FleetConfig
from runner.judge import Judge
from runner.places import Places
from runner.store import drains, passes
from runner.store.kinds import list_kinds
from tests.db.stage import add, announce, one, row
from tests.servers import Connection

pytestmark = pytest.mark.db

LONG_AGO = "2001-01-01"
JUDGE = Judge(Backoff(jitter=0.0), random.Random(1))
CONFIG = FleetConfig("postgresql://h/d", "tasks")
ODD_TIMES = ["infinity", "12000-01-01", "294000-01-01"]


def scheduled(db: Connection, run_at: str, **columns: object) -> int:
    return add(db, state="scheduled", run_at=run_at, **columns)[0]


def state(db: Connection, task: int) -> str:
    return str(row(db, task).state)


def test_what_is_due_becomes_ready(db: Connection) -> None:
    due, later = scheduled(db, LONG_AGO, shuffle=1.0), scheduled(db, "2999-01-01")
    assert passes.promote(db) == 1
    assert (state(db, due), state(db, later)) == ("ready", "scheduled")
    assert row(db, due).shuffle > 1000  # a place among those of today
    assert passes.promote(db) == 0


def test_a_thousand_at_once(db: Connection) -> None:
    add(db, count=1500, state="scheduled", run_at=LONG_AGO)
    assert [passes.promote(db), passes.promote(db), passes.promote(db)] == [1000, 500, 0]


def test_a_drain_leaves_what_failed_in_it(db: Connection) -> None:
    before = scheduled(db, LONG_AGO, last_failed_at="2002-01-01")
    never = scheduled(db, LONG_AGO)
    since = one(db, "select clock_timestamp()")
    inside = scheduled(db, LONG_AGO, last_failed_at="2999-01-01")
    assert passes.promote(db, since) == 2
    assert [state(db, task) for task in (before, never, inside)] == ["ready", "ready", "scheduled"]


def test_one_pass_at_a_time_and_nobody_waits(db: Connection, db_url: str) -> None:
    task = scheduled(db, LONG_AGO)
    db.execute("set lock_timeout = 1")
    with psycopg.connect(db_url) as other:
        other.execute("select pg_advisory_xact_lock(7240631, 1)")
        assert passes.promote(db) == 0
        assert passes.sweep(db, [], JUDGE) == []
    assert state(db, task) == "scheduled"
    assert passes.promote(db) == 1


def test_a_locked_row_is_left_for_the_next_pass(db: Connection, db_url: str) -> None:
    locked, free = scheduled(db, LONG_AGO), scheduled(db, LONG_AGO)
    with psycopg.connect(db_url) as other:
        other.execute("select from runner.task where task_id = %s for update", [locked])
        assert passes.promote(db) == 1
    assert (state(db, locked), state(db, free)) == ("scheduled", "ready")


@pytest.mark.parametrize("moment", ODD_TIMES)
def test_odd_times_survive_every_pass(db: Connection, moment: str) -> None:
    task = scheduled(db, moment)
    assert passes.promote(db) == 0
    next_due = passes.next_due(db)
    assert next_due is None or next_due <= 86_400
    assert list_kinds(db) == []
    passes.sweep(db, [], JUDGE)
    passes.prune(db, uuid4())
    assert drains.left(db, None, None).scheduled == 1
    assert one(db, "select state from runner.task where task_id = %s", task) == "scheduled"


def test_a_time_before_all_times_is_due(db: Connection) -> None:
    task = scheduled(db, "-infinity")
    next_due = passes.next_due(db)
    assert next_due is not None
    assert next_due <= 0
    assert passes.promote(db) == 1
    assert one(db, "select state from runner.task where task_id = %s", task) == "ready"


def test_the_next_due_time(db: Connection) -> None:
    assert passes.next_due(db) is None
    scheduled(db, "infinity")
    assert passes.next_due(db) is None
    scheduled(db, "2999-01-01")
    assert passes.next_due(db) == 86_400
    db.execute("update runner.task set run_at = clock_timestamp() + interval '50 s'")
    found = passes.next_due(db)
    assert found is not None
    assert 49 < found <= 50
    scheduled(db, LONG_AGO)
    found = passes.next_due(db)
    assert found is not None
    assert found < 0


def test_kinds_that_wait_and_may_be_claimed(db: Connection) -> None:
    for priority in (1, 5):
        add(db, "t", 3, priority=priority)
    add(db, "u", queue="q")
    add(db, "dead", state="dead")
    db.execute("insert into runner.pause values ('q', null)")
    found = list_kinds(db)
    assert sorted(found) == [("default", "t", 1), ("default", "t", 5), ("q", "u", 5)]
    assert sorted(passes.without_paused(db, found)) == [("default", "t", 1), ("default", "t", 5)]
    db.execute("insert into runner.pause values (null, 't', clock_timestamp())")
    assert len(passes.without_paused(db, found)) == 2
    db.execute("update runner.pause set until = null")
    assert passes.without_paused(db, found) == []


def test_kinds_are_told_apart_by_queue_and_type_not_by_their_letters(db: Connection) -> None:
    for queue, task_type in (("a", "bc"), ("ab", "c"), ("Ä", "ß"), ("a", "b'c"), ("a ", "bc")):
        add(db, task_type, queue=queue)
    found = list_kinds(db)
    assert len(found) == 5
    places = Places()
    for known in range(6):  # whichever are known already, all are found, each once
        places.know(found[:known])
        assert sorted(list_kinds(db, places)) == sorted(found)


def test_prune_forgets_what_is_over_and_only_that(db: Connection) -> None:
    mine, stale, fresh, alive = (uuid4() for _ in range(4))
    for runner in (mine, stale, fresh, alive):
        passes.register_runner(db, runner, CONFIG, "host")
    db.execute("update runner.runner set started_at = '2001-01-01' where runner_id <> %s", [fresh])
    announce(db, runner_id=alive)
    db.execute(
        """insert into runner.receipt values ('old', 1, 't', clock_timestamp() - interval '91 d'),
           ('new', 2, 't', clock_timestamp() - interval '89 d')"""
    )
    db.execute(
        """insert into runner.pause values ('over', null, '2001-01-01'), ('open', null, null),
           ('later', null, '2999-01-01'), ('for ever', null, 'infinity')"""
    )
    passes.prune(db, mine)
    runners = {found[0] for found in db.execute("select runner_id from runner.runner")}
    assert runners == {mine, fresh, alive}
    assert one(db, "select string_agg(idempotency_key, ',') from runner.receipt") == "new"
    assert one(db, "select count(*) from runner.pause") == 3
    assert one(db, "select count(*) from runner.pause where queue = 'over'") == 0


def test_runnable_counts_up_to_a_bound(db: Connection) -> None:
    add(db, "t", 5)
    add(db, "u", 5, queue="q")
    add(db, "t", state="dead")
    assert drains.runnable(db, None, 100) == 10
    assert drains.runnable(db, None, 3) == 3
    assert drains.runnable(db, ["q"], 100) == 5
    assert drains.runnable(db, [], 100) == 0
    db.execute("insert into runner.pause values ('q', null)")
    assert drains.runnable(db, None, 100) == 5


def test_one_drain_of_a_set_of_queues(db: Connection) -> None:
    first, second = uuid4(), uuid4()
    assert drains.take_lock(db, first, uuid4(), None, CONFIG)
    assert not drains.take_lock(db, second, uuid4(), None, CONFIG)
    assert drains.take_lock(db, second, uuid4(), ["a", "b"], CONFIG)
    assert not drains.take_lock(db, uuid4(), uuid4(), ["a", "b"], CONFIG)
    assert drains.take_lock(db, uuid4(), uuid4(), ["a,b"], CONFIG)
    drains.release_lock(db, first)
    assert drains.take_lock(db, uuid4(), uuid4(), None, CONFIG)


def test_types_of_the_living(db: Connection) -> None:
    runner = uuid4()
    announce(db, "a", "b", runner_id=runner)
    announce(db, "b", "c")
    assert passes.known_types(db) == {"a", "b", "c"}
    assert passes.types_of(db, runner) == {"a", "b"}


def test_receipts_are_kept_as_long_as_asked(db: Connection) -> None:
    for days in (1, 100, 1000):
        db.execute(
            "insert into runner.receipt (idempotency_key, task_id, task_type, completed_at)"
            " values (%s, 1, 't', clock_timestamp() - make_interval(days => %s))",
            [f"k{days}", days],
        )

    def kept() -> int:
        return int(one(db, "select count(*) from runner.receipt"))

    passes.prune(db, uuid4(), float("inf"))
    assert kept() == 3
    passes.prune(db, uuid4(), 200 * 86400.0)
    assert kept() == 2
    passes.prune(db, uuid4())
    assert kept() == 1
