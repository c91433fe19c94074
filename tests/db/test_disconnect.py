"""A connection that is lost is an identity that is lost: the next one ends what it held."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from runner.errors import Snooze
from runner.handling.session import Disconnected, Former, Left
from runner.judge import Claim, Verdict
from runner.store.connect import connect, is_infrastructure
from runner.store.tx import Tx
from runner.task import Task
from runner.wire import Outcome, Token
from tests.db.attempting import Bench, good, raises
from tests.db.stage import INSERT, JUDGE, effects, one
from tests.servers import Connection, wait_until

pytestmark = [pytest.mark.db, pytest.mark.direct]


def cut(bench: Bench) -> None:
    """End the worker's session in the server, and wait until it is gone."""
    pid = bench.conn.info.backend_pid
    bench.db.execute("select pg_terminate_backend(%s)", [pid])
    query = "select not exists (select from pg_stat_activity where pid = %s)"
    wait_until(lambda: one(bench.db, query, pid), why="session ended")


def released(claim: Claim) -> Verdict:
    return JUDGE.released(claim, started=False)


@pytest.fixture
def next_conn(bench: Bench, db_url: str) -> Iterator[Tx]:
    with connect(db_url, "worker next", factory=Tx) as conn:
        yield conn


def lost_in(bench: Bench, handler: Any, **columns: Any) -> Disconnected:
    with pytest.raises(Disconnected) as told:
        bench.run(handler, columns)
    assert bench.conn.closed
    return told.value


def settled(bench: Bench, conn: Tx, lost: Disconnected) -> Outcome:
    """What the next identity does; the outcome of the task claimed last."""
    former = Former(bench.session.worker_id, lost.left)
    outcomes = former.settle(conn, released)
    assert one(bench.db, "select count(*) from runner.worker") == 0
    return outcomes[bench.claim.task_id]


def test_cut_inside_the_handler(bench: Bench, next_conn: Tx) -> None:
    def handler(tx: Tx, task: Task) -> None:
        tx.execute(INSERT)
        cut(bench)
        tx.execute(INSERT)

    lost = lost_in(bench, handler)
    assert bench.row.state == "running"
    assert settled(bench, next_conn, lost) is Outcome.RELEASED
    row = bench.row
    assert (row.state, row.attempt, row.released) == ("scheduled", 0, 1)
    assert row.cause == "connection lost"
    assert effects(bench.db) == 0


@pytest.mark.parametrize("key", [None, "k"])
def test_cut_and_swallowed_by_the_handler(bench: Bench, next_conn: Tx, key: str | None) -> None:
    def handler(tx: Tx, task: Task) -> None:
        tx.execute(INSERT)
        cut(bench)
        try:
            tx.execute(INSERT)
        except psycopg.Error:
            pass

    columns = {"idempotency_key": key} if key else {}
    lost = lost_in(bench, handler, **columns)
    assert settled(bench, next_conn, lost) is Outcome.RELEASED
    assert (bench.row.state, bench.row.attempt) == ("scheduled", 0)
    assert effects(bench.db) == 0


def test_cut_before_the_deletion(bench: Bench, next_conn: Tx) -> None:
    def handler(tx: Tx, task: Task) -> None:
        tx.execute(INSERT)
        cut(bench)

    lost = lost_in(bench, handler)
    assert settled(bench, next_conn, lost) is Outcome.RELEASED
    assert effects(bench.db) == 0


@pytest.mark.parametrize(
    ("error", "state", "attempt"),
    [(ValueError("no"), "scheduled", 1), (Snooze(5), "scheduled", 0)],
    ids=["failure", "snooze"],
)
def test_a_verdict_that_could_not_be_written_is_written_by_the_next(
    bench: Bench, next_conn: Tx, error: Exception, state: str, attempt: int
) -> None:
    def handler(tx: Tx, task: Task) -> None:
        tx.execute(INSERT)
        cut(bench)
        raise error

    lost = lost_in(bench, handler)
    assert settled(bench, next_conn, lost) in (Outcome.RETRIED, Outcome.SNOOZED)
    assert (bench.row.state, bench.row.attempt) == (state, attempt)
    assert effects(bench.db) == 0


def test_cut_after_the_rollback(
    bench: Bench, next_conn: Tx, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = bench.conn.end

    def end_and_cut(command: bytes) -> None:
        end(command)
        cut(bench)

    monkeypatch.setattr(bench.conn, "end", end_and_cut)
    lost = lost_in(bench, raises(ValueError("no")))
    assert settled(bench, next_conn, lost) is Outcome.RETRIED
    assert (bench.row.cause, bench.row.attempt) == ("ValueError", 1)


@pytest.mark.parametrize("arrived", [True, False])
@pytest.mark.parametrize("key", [None, "k"])
def test_a_commit_without_an_answer(
    bench: Bench, next_conn: Tx, arrived: bool, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut right after COMMIT was done, or right before: the row tells which."""
    method = "end" if key else "finish"
    real = getattr(bench.conn, method)

    def unanswered(*args: Any, **options: Any) -> None:
        if arrived:
            real(*args, **options)
        cut(bench)
        bench.conn.pgconn.finish()
        raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(bench.conn, method, unanswered)
    lost = lost_in(bench, good, **({"idempotency_key": key} if key else {}))
    outcome = settled(bench, next_conn, lost)
    if arrived:
        assert outcome is Outcome.OK
        assert bench.row is None
        assert effects(bench.db) == 1
    else:
        assert outcome is Outcome.RELEASED
        assert bench.row.state == "scheduled"
        assert effects(bench.db) == 0
    assert one(bench.db, "select count(*) from runner.receipt") == int(bool(key and arrived))


def test_committing_while_a_person_cancelled_it_is_no_success(bench: Bench, next_conn: Tx) -> None:
    task = bench.claimed()
    bench.db.execute("delete from runner.task")
    bench.db.execute("insert into runner.removed values (%s, 't', 'cancelled')", [task.task_id])
    left = Left(bench.claim, released, committing=True)
    assert settled(bench, next_conn, Disconnected([left])) is Outcome.LOST


def test_swept_meanwhile_it_is_lost_and_nothing_is_touched(bench: Bench, next_conn: Tx) -> None:
    bench.claimed()
    bench.db.execute("update runner.task set fence = fence + 1, lease_owner = %s", [uuid4()])
    bench.db.execute("delete from runner.worker")
    before = bench.row
    left = Left(bench.claim, lambda claim: JUDGE.failed(claim, "x"))
    assert settled(bench, next_conn, Disconnected([left])) is Outcome.LOST
    assert bench.row == before


def test_what_was_done_is_deleted_by_the_next_identity(bench: Bench, next_conn: Tx) -> None:
    done, unknown = bench.claimed(), bench.claimed()
    former = Former(bench.session.worker_id, (), [Token(done.task_id, done.fence)])
    former.settle(next_conn, released)
    assert [found[0] for found in bench.db.execute("select task_id from runner.task")] == [
        unknown.task_id
    ]
    assert bench.row.state == "ready"  # a claim whose reply was lost, say


def test_an_error_of_another_connection_is_the_handlers(bench: Bench, db_url: str) -> None:
    def handler(tx: Tx, task: Task) -> None:
        tx.execute(INSERT)
        other = psycopg.connect(db_url, autocommit=True)
        tx.execute("select pg_terminate_backend(%s)", [other.info.backend_pid])
        other.execute("select 1")

    outcome, _ = bench.run(handler)
    assert outcome is Outcome.RETRIED
    assert bench.row.cause.startswith("psycopg.")
    assert bench.row.attempt == 1
    assert bench.run(good) == (Outcome.OK, None)


def test_a_transaction_that_the_handler_made_read_only_is_its_failure(bench: Bench) -> None:
    def handler(tx: Tx, task: Task) -> None:
        tx.execute("set transaction read only")
        tx.execute(INSERT)

    outcome, _ = bench.run(handler)
    assert outcome is Outcome.RETRIED
    assert bench.row.cause == "psycopg.errors.ReadOnlySqlTransaction"


def test_a_row_that_a_stranger_holds_gives_the_identity_up(
    bench: Bench, next_conn: Tx, db_url: str
) -> None:
    with psycopg.connect(db_url) as stranger:

        def handler(tx: Tx, task: Task) -> None:
            tx.execute("set lock_timeout = 20")
            stranger.execute("select from runner.task for update")
            raise ValueError("no")

        bench.conn.execute("set lock_timeout = 20")
        lost = lost_in(bench, handler)
    assert settled(bench, next_conn, lost) is Outcome.RETRIED
    assert bench.row.cause == "ValueError"


def test_what_counts_as_infrastructure(db: Connection) -> None:
    assert not is_infrastructure(ValueError(), db)
    assert not is_infrastructure(psycopg.errors.UniqueViolation(), db)
    assert not is_infrastructure(psycopg.errors.AdminShutdown(), db)  # of somebody else's
    assert not is_infrastructure(psycopg.errors.ReadOnlySqlTransaction(), db)
