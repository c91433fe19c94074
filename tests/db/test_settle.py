"""Settling: a claim in flight is found or does not happen, and nothing is taken twice."""

from uuid import UUID, uuid4

import psycopg
import pytest

from runner.judge import NOTHING
from runner.store import ending
from runner.store.connect import connect
from runner.wire import How, Outcome, Token
from tests.db.stage import JUDGE, Background, Claimer, add, announce, one, row, until_blocked
from tests.servers import Connection

pytestmark = [pytest.mark.db, pytest.mark.direct]

KIND = ("default", "t", 5)


def settle(
    conn: psycopg.Connection, worker: UUID, how: How = How.DIED, begun: Token = NOTHING
) -> list[ending.Ended] | None:
    return ending.settle(conn, worker, lambda claim: JUDGE.settled(claim, how, "why", begun))


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


def test_a_claim_that_deletes_on_the_way_locks_in_the_order_of_a_settle(
    db: Connection, db_url: str
) -> None:
    """First the worker's row, then the tasks: the other way round they would deadlock."""
    (task,) = add(db)
    with psycopg.connect(db_url, autocommit=True) as conn, psycopg.connect(db_url) as other:
        claimer = Claimer(conn, "t").know(KIND)
        (found,) = claimer.claim()
        other.execute("set lock_timeout = 20")
        other.execute("delete from runner.worker where worker_id = %s", [claimer.worker_id])
        call = Background(lambda: claimer.claim(done=[Token(task, found.fence)]))
        until_blocked(db, conn, call)
        # What settle does next must not wait for what waits for it.
        other.execute("update runner.task set state = 'ready', lease_owner = null")
        other.commit()
        assert call.result() == []
    assert row(db, task).state == "ready"


def test_what_it_had_begun_and_what_it_had_not(db: Connection) -> None:
    add(db, count=3)
    claimer = Claimer(db, "t").know(KIND)
    begun, *rest = claimer.claim(wanted=3)
    ended = settle(db, claimer.worker_id, begun=begun.claim.token)
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
    (ended,) = settle(db, claimer.worker_id, begun=found.claim.token) or ()
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
        call = Background(lambda: settle(other, claimer.worker_id, begun=found.claim.token))
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
