"""Whoever ends a claim names id, owner and fence, and the row must be running: else LeaseLost."""

from uuid import uuid4

import psycopg
import pytest

from runner.errors import LeaseLost
from runner.judge import Verdict
from runner.store import ending
from runner.store.claim import Row
from runner.wire import Outcome, Token
from tests.db.stage import (
    JUDGE,
    Background,
    Claimer,
    add,
    consistent,
    one,
    row,
    until_blocked,
)
from tests.servers import Connection

pytestmark = pytest.mark.db

READY = Verdict(Outcome.RELEASED, "ready", 0, 0, False)


@pytest.fixture
def claimer(db: Connection) -> Claimer:
    return Claimer(db, "t")


def claimed(claimer: Claimer, **columns: object) -> Row:
    add(claimer.conn, **columns)
    found = claimer.take()
    assert found is not None
    return found


def test_complete_deletes(db: Connection, claimer: Claimer) -> None:
    task = claimed(claimer)
    marker = ending.complete(db, claimer.worker_id, task.task_id, task.fence)
    assert row(db, task.task_id) is None
    assert not marker  # nobody set one here


@pytest.mark.parametrize("wrong", ["owner", "fence", "state", "task", "nobody's"])
def test_any_other_claim_is_lost_and_the_row_stays(
    db: Connection, claimer: Claimer, wrong: str
) -> None:
    task = claimed(claimer)
    owner, number, fence = claimer.worker_id, task.task_id, task.fence
    if wrong == "owner":
        owner = uuid4()
    elif wrong == "fence":
        fence -= 1
    elif wrong == "task":
        (number,) = add(db)
    elif wrong == "state":
        db.execute("update runner.task set state = 'ready', lease_owner = null")
    elif wrong == "nobody's":
        db.execute("update runner.task set lease_owner = %s", [uuid4()])
    before = row(db, task.task_id)
    with pytest.raises(LeaseLost):
        ending.complete(db, owner, number, fence)
    with pytest.raises(LeaseLost):
        ending.end_claim(db, owner, number, fence, READY)
    assert row(db, task.task_id) == before


def test_a_verdict_is_written_whole(db: Connection, claimer: Claimer) -> None:
    task = claimed(claimer)
    verdict = JUDGE.failed(task.claim, "ValueError", "ValueError: no", delay=100)
    ending.end_claim(db, claimer.worker_id, task.task_id, task.fence, verdict)
    stored = row(db, task.task_id)
    assert (stored.state, stored.attempt, stored.released) == ("scheduled", 1, 0)
    assert (stored.cause, stored.last_error) == ("ValueError", "ValueError: no")
    assert (stored.lease_owner, stored.claimed_at) == (None, None)
    assert stored.fence == task.fence  # kept: the next one is greater
    wait = one(db, "select extract(epoch from run_at - clock_timestamp())::float8 from runner.task")
    assert 98 < wait <= 100
    assert stored.last_failed_at is not None
    assert stored.shuffle != task.shuffle
    assert consistent(db)


def test_what_the_handler_said_stays_when_its_worker_dies_later(
    db: Connection, claimer: Claimer
) -> None:
    task = claimed(claimer, last_error="ValueError: first")
    verdict = JUDGE.failed(task.claim, "SIGSEGV")
    ending.end_claim(db, claimer.worker_id, task.task_id, task.fence, verdict)
    stored = row(db, task.task_id)
    assert (stored.cause, stored.last_error) == ("SIGSEGV", "ValueError: first")


def test_a_release_leaves_run_at_and_the_last_failure_alone(
    db: Connection, claimer: Claimer
) -> None:
    task = claimed(claimer, run_at="2001-01-01", last_failed_at="2002-02-02")
    before = row(db, task.task_id)
    verdict = JUDGE.released(task.claim, started=True)
    ending.end_claim(db, claimer.worker_id, task.task_id, task.fence, verdict)
    stored = row(db, task.task_id)
    assert (stored.run_at, stored.last_failed_at) == (before.run_at, before.last_failed_at)
    assert (stored.state, stored.attempt, stored.released) == ("ready", 0, 1)


@pytest.mark.direct
def test_of_two_completions_one_is_lost(db: Connection, db_url: str, claimer: Claimer) -> None:
    task = claimed(claimer)
    arguments = (claimer.worker_id, task.task_id, task.fence)
    with psycopg.connect(db_url) as first, psycopg.connect(db_url, autocommit=True) as second:
        ending.complete(first, *arguments)
        call = Background(lambda: ending.complete(second, *arguments))
        until_blocked(db, second, call)
        first.commit()
        with pytest.raises(LeaseLost):
            call.result()


@pytest.mark.direct
def test_a_completion_that_is_rolled_back_leaves_it_to_the_next(
    db: Connection, db_url: str, claimer: Claimer
) -> None:
    task = claimed(claimer)
    arguments = (claimer.worker_id, task.task_id, task.fence)
    with psycopg.connect(db_url) as first, psycopg.connect(db_url, autocommit=True) as second:
        ending.complete(first, *arguments)
        call = Background(lambda: ending.end_claim(second, *arguments, READY))
        until_blocked(db, second, call)
        first.rollback()
        call.result()
    assert row(db, task.task_id).state == "ready"


@pytest.mark.direct
def test_the_effect_goes_with_the_lost_lease(db: Connection, db_url: str, claimer: Claimer) -> None:
    task = claimed(claimer)
    db.execute("create table effect (n int)")
    with psycopg.connect(db_url) as worker:
        worker.execute("insert into effect values (1)")
        db.execute("update runner.task set fence = fence + 1")  # claimed again elsewhere
        with pytest.raises(LeaseLost):
            ending.complete(worker, claimer.worker_id, task.task_id, task.fence)
        worker.rollback()
    assert one(db, "select count(*) from effect") == 0


@pytest.mark.direct
class TestReceipts:
    """Keys of completed tasks: once, in the completing transaction."""

    def test_the_first_is_written_and_the_second_is_told(self, db: Connection) -> None:
        assert ending.leave_receipt(db, "key", 1, "t")
        assert not ending.leave_receipt(db, "key", 2, "t")
        assert one(db, "select task_id from runner.receipt") == 1

    def test_two_at_once_wait_for_each_other(self, db: Connection, db_url: str) -> None:
        with psycopg.connect(db_url) as first, psycopg.connect(db_url) as second:
            assert ending.leave_receipt(first, "key", 1, "t")
            call = Background(lambda: ending.leave_receipt(second, "key", 2, "t"))
            until_blocked(db, second, call)
            first.commit()
            assert call.result() is False

    def test_a_key_that_was_rolled_back_is_free(self, db: Connection, db_url: str) -> None:
        with psycopg.connect(db_url) as first, psycopg.connect(db_url) as second:
            assert ending.leave_receipt(first, "key", 1, "t")
            call = Background(lambda: ending.leave_receipt(second, "key", 2, "t"))
            until_blocked(db, second, call)
            first.rollback()
            assert call.result() is True


class TestTogether:
    """Deletions that travel with others: each under its own fence."""

    def test_done_tasks_of_ours_and_no_others(self, db: Connection, claimer: Claimer) -> None:
        tasks = [claimed(claimer) for _ in range(3)]
        other = claimed(Claimer(db, "t"))
        tokens = [Token(task.task_id, task.fence) for task in tasks]
        tokens[1] = Token(tokens[1].task_id, tokens[2].fence)  # a fence of another task
        tokens.append(Token(other.task_id, other.fence))
        assert ending.delete_done(db, claimer.worker_id, tokens) == 2
        assert row(db, tasks[1].task_id).state == "running"
        assert row(db, other.task_id).state == "running"

    def test_deleted_on_the_way_to_the_next_claim(self, db: Connection, claimer: Claimer) -> None:
        task = claimed(claimer)
        (following,) = add(db)
        token = Token(task.task_id, task.fence)
        (found,) = claimer.claim(done=[token], full=True)
        assert found.task_id == following
        assert row(db, task.task_id) is None

    def test_deleted_though_there_is_nothing_to_claim(
        self, db: Connection, claimer: Claimer
    ) -> None:
        task = claimed(claimer)
        db.execute("update runner.worker set lease_until = '2001-01-01'")
        assert claimer.claim(done=[Token(task.task_id, task.fence)]) == []
        assert row(db, task.task_id) is None

    def test_a_group_is_whole_or_lost(self, db: Connection, claimer: Claimer) -> None:
        tasks = [claimed(claimer) for _ in range(3)]
        tokens = [Token(task.task_id, task.fence) for task in tasks]
        db.execute("update runner.task set fence = fence + 1 where task_id = %s", tokens[1][:1])
        with pytest.raises(LeaseLost), db.transaction():
            ending.complete_group(db, claimer.worker_id, tokens)
        assert one(db, "select count(*) from runner.task") == 3

    def test_handed_back_unharmed(self, db: Connection, claimer: Claimer) -> None:
        task, kept = claimed(claimer, attempt=2), claimed(claimer)
        tokens = [Token(task.task_id, task.fence), Token(kept.task_id, kept.fence - 1)]
        assert ending.hand_back(db, claimer.worker_id, tokens) == 1
        stored = row(db, task.task_id)
        assert (stored.state, stored.attempt, stored.released) == ("ready", 2, 0)
        assert row(db, kept.task_id).state == "running"
