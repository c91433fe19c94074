"""Sweeping: leases that ended, with nobody left to settle them, and rows that nobody stands behind."""

from uuid import UUID

import psycopg
import pytest

from runner.judge import Claim, Verdict
from runner.maintaining.orphans import Orphans
from runner.observing import Lease
from runner.store import ending, passes
from runner.store.connect import connect
from runner.wire import Outcome
from tests.db.stage import JUDGE, Background, Claimer, add, announce, one, row, until_blocked
from tests.logins import another_worker
from tests.servers import SHARED, Connection, Embedded, database_url

pytestmark = pytest.mark.db

KIND = ("default", "t", 5)


def lease_of(db: Connection, worker: UUID) -> Lease[UUID]:
    (found,) = [lease for lease in passes.leases(db) if lease.id == worker]
    return found


def test_a_lease_that_moved_since_it_was_seen_is_not_taken(db: Connection) -> None:
    (task,) = add(db)
    claimer = Claimer(db, "t").know(KIND)
    claimer.claim()
    seen = lease_of(db, claimer.worker_id)
    db.execute("update runner.worker set lease_until = lease_until + interval '1 us'")
    assert passes.sweep(db, [seen], JUDGE) == []
    assert row(db, task).state == "running"
    assert one(db, "select count(*) from runner.worker") == 1


def test_first_it_is_doubted_then_charged(db: Connection) -> None:
    (task,) = add(db)
    for attempt, released in ((0, 1), (1, 1), (2, 1)):
        claimer = Claimer(db, "t").know(KIND)
        assert len(claimer.claim()) == 1
        (ended,) = passes.sweep(db, [lease_of(db, claimer.worker_id)], JUDGE)
        stored = row(db, task)
        assert (stored.state, stored.attempt, stored.released) == (
            "scheduled",
            attempt,
            released,
        )
        assert stored.solo
        assert ended.verdict.cause == "lease expired"
        db.execute("update runner.task set state = 'ready'")


def test_orphans_are_returned_unharmed(db: Connection) -> None:
    (task,) = add(db)
    claimer = Claimer(db, "t").know(KIND)
    (found,) = claimer.claim()
    assert not passes.orphans_wait(db)
    db.execute("delete from runner.worker")
    assert passes.orphans_wait(db)
    (ended,) = passes.sweep(db, [], JUDGE)
    stored = row(db, task)
    assert (stored.state, stored.attempt, stored.released, stored.solo) == (
        "ready",
        0,
        0,
        False,
    )
    assert stored.fence == found.fence
    assert ended.verdict.outcome is Outcome.RELEASED
    assert not passes.orphans_wait(db)


@pytest.mark.direct
def test_an_orphan_that_is_claimed_afresh_meanwhile_is_left(db: Connection, db_url: str) -> None:
    (task,) = add(db)
    claimer = Claimer(db, "t").know(KIND)
    claimer.claim()
    db.execute("delete from runner.worker")
    fresh = Claimer(db, "t").know(KIND)
    with psycopg.connect(db_url, autocommit=True) as other, psycopg.connect(db_url) as first:
        first.execute(
            """update runner.task set lease_owner = %s, fence = fence + 1
               where task_id = %s""",
            [fresh.worker_id, task],
        )

        def judge(claim: Claim) -> Verdict:
            return JUDGE.released(claim, started=False)

        call = Background(lambda: ending.return_orphans(other, judge))
        until_blocked(db, other, call)
        first.commit()
        assert call.result() == []
    assert row(db, task).lease_owner == fresh.worker_id


def test_leases_are_taken_without_a_look_for_orphans(db: Connection) -> None:
    add(db, count=2)
    gone, late = Claimer(db, "t").know(KIND), Claimer(db, "t").know(KIND)
    claimed = {each.claim()[0].task_id: each for each in (gone, late)}
    orphan = next(task for task, each in claimed.items() if each is gone)
    (other,) = set(claimed) - {orphan}
    db.execute("delete from runner.worker where worker_id = %s", [gone.worker_id])
    ripe = [lease_of(db, late.worker_id)]
    assert [ended.task_id for ended in passes.sweep(db, ripe, JUDGE, orphans=False)] == [other]
    assert [ended.task_id for ended in passes.sweep(db, [], JUDGE)] == [orphan]


@pytest.mark.direct
def test_a_look_for_orphans_that_fails_is_put_off(db: Connection, db_url: str) -> None:
    """It may take longer than a statement may: then sweeps go on without it."""
    orphans = Orphans()
    with psycopg.connect(db_url) as other, connect(db_url, "maintainer") as sweeper:
        other.execute("lock table runner.task in access exclusive mode")
        sweeper.execute("set lock_timeout = 50")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            orphans.wait(sweeper)
        assert not orphans.wait(sweeper)  # it does not ask


def test_two_sweepers_at_once(db: Connection, db_url: str) -> None:
    add(db, count=5)
    claimer = Claimer(db, "t").know(KIND)
    claimer.claim(wanted=5)
    seen = lease_of(db, claimer.worker_id)
    with (
        psycopg.connect(db_url, autocommit=True) as first,
        psycopg.connect(db_url, autocommit=True) as second,
    ):
        calls = [
            Background(lambda on=conn: passes.sweep(on, [seen], JUDGE)) for conn in (first, second)
        ]
        ended = [found.task_id for call in calls for found in call.result()]
    assert len(ended) == len(set(ended)) == 5


def test_a_worker_that_cannot_be_ended_does_not_hold_up_the_rest(
    db: Connection, db_url: str
) -> None:
    first, second = Claimer(db, "t").know(KIND), Claimer(db, "t").know(KIND)
    tasks = add(db, count=2)
    first.claim()
    second.claim()
    seen = [lease_of(db, claimer.worker_id) for claimer in (first, second)]
    held = one(db, "select task_id from runner.task where lease_owner = %s", first.worker_id)
    with psycopg.connect(db_url) as stranger, connect(db_url, "maintainer") as sweeper:
        sweeper.execute("set lock_timeout = 20")
        stranger.execute("select from runner.task where task_id = %s for update", [held])
        ended = passes.sweep(sweeper, seen, JUDGE)
    assert [found.task_id for found in ended] == [task for task in tasks if task != held]
    # Its lease is not taken half: the next sweep tries again.
    assert one(db, "select count(*) from runner.worker") == 1
    assert len(passes.sweep(db, seen[:1], JUDGE)) == 1


def test_a_session_that_may_be_seen_and_not_ended_does_not_hold_up_the_rest(
    db: Connection, server: Embedded
) -> None:
    """Another login's: the refusal must not abort the pass, in which other leases have ended, too."""
    url = database_url(server.url, SHARED)
    (task,) = add(db)
    with (
        another_worker(url) as one_login,
        another_worker(url, "pg_monitor") as other_login,
        connect(one_login.url, "worker 0") as left,
        connect(other_login.url, "maintainer") as sweeper,
    ):
        behind = Claimer(left, "t").know(KIND)
        behind.claim()
        seen = [lease_of(db, behind.worker_id), lease_of(db, announce(db))]
        assert [found.task_id for found in passes.sweep(sweeper, seen, JUDGE)] == [task]
        left.execute("select 1")  # it was not ended
    assert one(db, "select count(*) from runner.worker") == 0


def test_a_lease_beyond_its_own_length_has_ended(db: Connection) -> None:
    worker, sound = announce(db), announce(db)
    assert not lease_of(db, worker).ended
    db.execute("update runner.worker set lease_until = '2999-01-01' where worker_id = %s", [worker])
    assert lease_of(db, worker).ended
    assert not lease_of(db, sound).ended


def test_a_drains_first_pass_takes_only_what_ended_long_ago(db: Connection) -> None:
    workers = [announce(db, lease=30) for _ in range(3)]
    for worker, seconds in zip(workers, (-10, 29, 31), strict=True):
        db.execute(
            """update runner.worker set lease_until = clock_timestamp() - make_interval(secs => %s)
               where worker_id = %s""",
            [seconds, worker],
        )
    assert [lease.id for lease in passes.long_ended(db)] == [workers[2]]


def test_a_drain_lock_is_swept_like_a_worker(db: Connection) -> None:
    lock = announce(db, role="drain")
    assert passes.sweep(db, [lease_of(db, lock)], JUDGE) == []
    assert one(db, "select count(*) from runner.worker") == 0
