"""Settling and sweeping: a claim in flight is found or does not happen, and nothing is taken twice."""

from uuid import UUID, uuid4

import psycopg
import pytest

from runner.judge import Claim, Verdict
from runner.observing import Lease
from runner.store import ending, passes
from runner.store.connect import connect
from runner.wire import How, Outcome
from tests.db.stage import JUDGE, Background, Claimer, add, announce, one, row, until_blocked
from tests.servers import Connection

pytestmark = pytest.mark.db

KIND = ("default", "t", 5)


def settle(
    conn: psycopg.Connection, worker: UUID, how: How = How.DIED, begun: int = 0
) -> list[ending.Ended] | None:
    return ending.settle(conn, worker, lambda claim: JUDGE.settled(claim, how, "why", begun))


def lease_of(db: Connection, worker: UUID) -> Lease[UUID]:
    (found,) = [lease for lease in passes.leases(db) if lease.id == worker]
    return found


def test_settle_waits_for_a_claim_in_flight_and_finds_it(db: Connection, db_url: str) -> None:
    (task,) = add(db)
    with psycopg.connect(db_url, autocommit=True) as conn:
        claimer = Claimer(conn, "t").know(KIND)
        with psycopg.connect(db_url, autocommit=True) as other:
            with conn.transaction():
                (found,) = claimer.claim()
                call = Background(lambda: settle(other, claimer.worker_id))
                until_blocked(db, other, call)
            (ended,) = call.result() or ()
    assert (ended.task_id, ended.verdict.state) == (task, "ready")
    assert found.task_id == task
    assert row(db, task).state == "ready"
    assert row(db, task).attempt == 0


def test_a_claim_whose_worker_is_being_settled_claims_nothing(db: Connection, db_url: str) -> None:
    (task,) = add(db)
    with psycopg.connect(db_url, autocommit=True) as conn, psycopg.connect(db_url) as other:
        claimer = Claimer(conn, "t").know(KIND)
        other.execute("delete from runner.worker where worker_id = %s", [claimer.worker_id])
        call = Background(claimer.claim)
        until_blocked(db, conn, call)
        other.commit()
        assert call.result() == []
    assert row(db, task).state == "ready"


def test_claims_against_settles_leave_no_orphan(db: Connection, db_url: str) -> None:
    add(db, count=40)

    def claim_on(claimer: Claimer) -> int:
        found = 0
        while rows := claimer.claim():
            found += len(rows)
        return found

    for _ in range(12):
        with (
            psycopg.connect(db_url, autocommit=True) as conn,
            psycopg.connect(db_url, autocommit=True) as other,
        ):
            claimer = Claimer(conn, "t").know(KIND)
            call = Background(lambda it=claimer: claim_on(it))
            ended = settle(other, claimer.worker_id)
            assert call.result() == len(ended or ())
        assert one(db, "select count(*) from runner.task where state = 'running'") == 0
        assert one(db, "select count(*) from runner.task where state = 'ready'") == 40


def test_what_it_had_begun_and_what_it_had_not(db: Connection) -> None:
    add(db, count=3)
    claimer = Claimer(db, "t").know(KIND)
    begun, *rest = claimer.claim(wanted=3)
    ended = settle(db, claimer.worker_id, begun=begun.fence)
    assert ended is not None
    by_id = {found.task_id: found.verdict for found in ended}
    assert (by_id[begun.task_id].state, by_id[begun.task_id].attempt) == ("scheduled", 1)
    assert row(db, begun.task_id).cause == "why"
    for found in rest:
        stored = row(db, found.task_id)
        assert (stored.state, stored.attempt, stored.released) == ("ready", 0, 0)
        assert stored.cause is None


def test_a_death_at_the_last_attempt_is_the_end(db: Connection) -> None:
    (task,) = add(db, attempt=4, max_attempts=5, last_error="ValueError: before")
    claimer = Claimer(db, "t").know(KIND)
    (found,) = claimer.claim()
    (ended,) = settle(db, claimer.worker_id, begun=found.fence) or ()
    assert ended.verdict.outcome is Outcome.DEAD
    stored = row(db, task)
    assert (stored.state, stored.attempt, stored.last_error) == ("dead", 5, "ValueError: before")


def test_an_unstarted_claim_at_the_last_attempt_is_no_death(db: Connection) -> None:
    (task,) = add(db, attempt=4, max_attempts=5)
    claimer = Claimer(db, "t").know(KIND)
    claimer.claim()
    settle(db, claimer.worker_id)
    assert (row(db, task).state, row(db, task).attempt) == ("ready", 4)


def test_settled_once(db: Connection) -> None:
    worker = announce(db)
    assert settle(db, worker) == []
    assert settle(db, worker) is None
    assert settle(db, uuid4()) is None


def test_settling_one_leaves_the_others_alone(db: Connection) -> None:
    add(db, count=2)
    mine, other = Claimer(db, "t").know(KIND), Claimer(db, "t").know(KIND)
    mine.claim()
    (kept,) = other.claim()
    settle(db, mine.worker_id)
    assert row(db, kept.task_id).state == "running"


def test_settle_waits_for_a_completion_and_leaves_what_was_done(
    db: Connection, db_url: str
) -> None:
    (task,) = add(db)
    claimer = Claimer(db, "t").know(KIND)
    (found,) = claimer.claim()
    with (
        psycopg.connect(db_url) as worker,
        psycopg.connect(db_url, autocommit=True) as other,
    ):
        ending.complete(worker, claimer.worker_id, task, found.fence)
        call = Background(lambda: settle(other, claimer.worker_id, begun=found.fence))
        until_blocked(db, other, call)
        worker.commit()
        assert call.result() == []
    assert row(db, task) is None


def test_the_backend_of_a_dead_worker_is_ended(db: Connection, db_url: str) -> None:
    conn = connect(db_url, "worker 0")
    worker = announce(conn)
    ending.terminate_backend(db, worker)
    with pytest.raises(psycopg.OperationalError):
        conn.execute("select 1")


def test_no_session_but_our_own_is_ended(db: Connection, db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True, application_name="psql") as stranger:
        ending.terminate_backend(db, announce(stranger))
        assert one(stranger, "select 1") == 1
    with connect(db_url, "worker 0") as later:
        # Its pid was used again: the row is older than the session.
        worker = announce(later)
        db.execute("update runner.worker set started_at = '2001-01-01'")
        ending.terminate_backend(db, worker)
        assert one(later, "select 1") == 1


class TestSweep:
    """Leases that ended, with nobody left to settle them."""

    def test_a_lease_that_moved_since_it_was_seen_is_not_taken(self, db: Connection) -> None:
        (task,) = add(db)
        claimer = Claimer(db, "t").know(KIND)
        claimer.claim()
        seen = lease_of(db, claimer.worker_id)
        db.execute("update runner.worker set lease_until = lease_until + interval '1 us'")
        assert passes.sweep(db, [seen], JUDGE) == []
        assert row(db, task).state == "running"
        assert one(db, "select count(*) from runner.worker") == 1

    def test_first_it_is_doubted_then_charged(self, db: Connection) -> None:
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

    def test_orphans_are_returned_unharmed(self, db: Connection) -> None:
        (task,) = add(db)
        claimer = Claimer(db, "t").know(KIND)
        (found,) = claimer.claim()
        assert not passes.sweep_is_due(db, [])
        db.execute("delete from runner.worker")
        assert passes.sweep_is_due(db, [])
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
        assert not passes.sweep_is_due(db, [])

    def test_an_orphan_that_is_claimed_afresh_meanwhile_is_left(
        self, db: Connection, db_url: str
    ) -> None:
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

    def test_two_sweepers_at_once(self, db: Connection, db_url: str) -> None:
        add(db, count=5)
        claimer = Claimer(db, "t").know(KIND)
        claimer.claim(wanted=5)
        seen = lease_of(db, claimer.worker_id)
        with (
            psycopg.connect(db_url, autocommit=True) as first,
            psycopg.connect(db_url, autocommit=True) as second,
        ):
            calls = [
                Background(lambda on=conn: passes.sweep(on, [seen], JUDGE))
                for conn in (first, second)
            ]
            ended = [found.task_id for call in calls for found in call.result()]
        assert len(ended) == len(set(ended)) == 5

    def test_a_worker_that_cannot_be_ended_does_not_hold_up_the_rest(
        self, db: Connection, db_url: str
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

    def test_a_lease_beyond_its_own_length_has_ended(self, db: Connection) -> None:
        worker, sound = announce(db), announce(db)
        assert not lease_of(db, worker).ended
        db.execute(
            "update runner.worker set lease_until = '2999-01-01' where worker_id = %s", [worker]
        )
        assert lease_of(db, worker).ended
        assert not lease_of(db, sound).ended

    def test_a_drains_first_pass_takes_only_what_ended_long_ago(self, db: Connection) -> None:
        workers = [announce(db, lease=30) for _ in range(3)]
        for worker, seconds in zip(workers, (-10, 29, 31), strict=True):
            db.execute(
                """update runner.worker set lease_until = clock_timestamp() - make_interval(secs => %s)
                   where worker_id = %s""",
                [seconds, worker],
            )
        assert [lease.id for lease in passes.long_ended(db)] == [workers[2]]

    def test_a_drain_lock_is_swept_like_a_worker(self, db: Connection) -> None:
        lock = announce(db, role="drain")
        assert passes.sweep(db, [lease_of(db, lock)], JUDGE) == []
        assert one(db, "select count(*) from runner.worker") == 0
