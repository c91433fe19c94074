"""What interrupts, breaks or ends a connection while the COMMIT of the task before is unanswered."""

import signal
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from runner.clock import now
from runner.handling.session import Disconnected
from runner.store.tx import Tx
from runner.task import Task
from runner.wire import Kind
from tests.db.attempting import Bench
from tests.db.batching import EFFECT, Batches, good
from tests.db.test_ahead import (
    OK,
    RETRIED,
    SLEEPS,
    WAITS,
    alarm,
    batches,
    defers,
    held,
    once,
    silent,
)

__all__ = ["batches", "held"]
pytestmark = [pytest.mark.db, pytest.mark.direct]


class OutOfTimeError(Exception):
    """As raised by the handler's own signal handlers."""


def strike() -> None:
    raise OutOfTimeError


def left_of(batches: Batches, lost: Any) -> dict[int, bool]:
    """Places in the batch, each once, and whether it was committing."""
    found = {}
    for one in lost.value.left:
        place = batches.ids.index(one.claim.task_id)
        assert place not in found
        found[place] = one.committing
    return found


@pytest.mark.usefixtures("held")
def test_a_signal_of_the_handlers_own_that_is_swallowed(batches: Batches) -> None:
    """Whatever the handler sends after it has no effect by itself."""

    def goes_on(tx: Tx, task: Task) -> None:
        with suppress(OutOfTimeError), alarm(0.2, once(batches.bench.db, WAITS, strike)):
            good(tx, task)
        with suppress(psycopg.Error):
            tx.execute(EFFECT, [-1])

    batches.claim(good, goes_on, good)
    with pytest.raises(Disconnected) as lost:
        batches.work_through()
    batches.bench.db.execute("select pg_advisory_unlock_all()")
    assert set(left_of(batches, lost)) == {0, 1}
    assert batches.bench.db.execute("select 1 from effect where n = -1").fetchone() is None


def lose_connection_at_late_failure(bench: Bench) -> None:
    """Before it is written."""
    real = bench.attempts.end_late

    def end_late(*args: Any) -> Any:
        bench.db.execute("select pg_terminate_backend(%s, 5000)", [bench.conn.pgconn.backend_pid])
        return real(*args)

    bench.attempts.end_late = end_late  # type: ignore[method-assign]


def test_a_connection_lost_when_a_failure_is_written(batches: Batches) -> None:
    """It is left once, and so is told once; the one behind it is through, and is not run again."""
    bench = batches.bench

    def quiet(tx: Tx, task: Task) -> None:
        pass

    lose_connection_at_late_failure(bench)
    batches.claim(defers(batches), quiet, good)
    with pytest.raises(Disconnected) as lost:
        batches.work_through()
    assert left_of(batches, lost) == {0: False}
    assert [token.task_id for token in batches.executor.done] == [batches.ids[1]]


def test_a_failure_behind_one_that_is_told(batches: Batches) -> None:
    """The end of a task is told, though the identity ends with the one before it."""
    bench = batches.bench
    lose_connection_at_late_failure(bench)
    batches.claim(defers(batches), good, good)
    with pytest.raises(Disconnected) as lost:
        batches.work_through()
    assert left_of(batches, lost) == {0: False}
    (left,) = lost.value.left
    assert left.judgement(left.claim).cause == "psycopg.errors.UniqueViolation"
    assert batches.effects() == [1]
    batches.executor.telling.events.flush()
    assert batches.outcomes() == {1: OK}


@pytest.mark.usefixtures("held")
def test_who_waits_for_the_one_before_is_over(batches: Batches) -> None:
    """A handler that sent nothing is told to be ending before anything is waited for: from then on it
    is not its time limit that counts."""
    seen: list[Kind] = []
    db, conn = batches.bench.db, batches.bench.conn
    real = conn.take_back

    def take_back(**options: Any) -> None:
        if conn.unanswered:
            seen.extend(event.kind for event in batches.told() if event.task == batches.ids[1])
            db.execute("select pg_advisory_unlock_all()")
        real(**options)

    conn.take_back = take_back  # type: ignore[method-assign]
    batches.run(good, silent)
    assert seen == [Kind.STARTED, Kind.ENDING]
    assert batches.left() == {}


def test_a_limit_in_a_statement_of_its_own_is_charged(batches: Batches) -> None:
    """Though the statement went along with the COMMIT before it."""

    def waits(tx: Tx, task: Task) -> None:
        interrupts = batches.bench.interrupts
        interrupts.arm(now() - 1)
        strike = once(batches.bench.db, SLEEPS, lambda: interrupts._trap(15, None))
        with alarm(0.3, strike):
            tx.execute("select pg_sleep(20 * %s)", [1])

    def prepares(tx: Tx, task: Task) -> None:
        for _ in range(7):
            tx.execute("select pg_sleep(20 * %s)", [0])
        good(tx, task)

    batches.run(prepares, good, waits, good)
    assert batches.left() == {2: ("scheduled", 1, "time limit")}
    assert batches.effects() == [0, 1, 3]


def test_what_cuts_one_short_is_forgotten_with_it(batches: Batches) -> None:
    """The next one's own time limit is its own."""
    conn = batches.bench.conn
    conn.cut_short = True

    def late(tx: Tx, task: Task) -> None:
        interrupts = batches.bench.interrupts
        interrupts.arm(now() - 1)
        interrupts._trap(signal.SIGTERM, None)

    batches.run(late)
    assert batches.left() == {0: ("scheduled", 1, "time limit")}


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("prepare", [True, False])
def test_a_limit_in_a_commit_that_succeeds_all_the_same(batches: Batches, prepare: bool) -> None:
    """As one that waits for a standby: canceled, it is committed. Who waited for it is not charged."""
    db = batches.bench.db
    db.execute(
        "create or replace function hold() returns trigger language plpgsql as $$"
        " begin perform pg_advisory_xact_lock(7); return null;"
        " exception when query_canceled then return null; end $$"
    )

    def waits(tx: Tx, task: Task) -> None:
        interrupts = batches.bench.interrupts
        interrupts.arm(now() - 1)
        with alarm(0.3, once(db, WAITS, lambda: interrupts._trap(signal.SIGTERM, None))):
            tx.execute(EFFECT, [task.id], prepare=prepare)

    batches.run(good, waits, lambda tx, task: db.execute("select pg_advisory_unlock_all()"))
    assert batches.left() == {1: ("scheduled", 0, "interrupted")}
    assert batches.effects() == [0]
    assert not batches.bench.conn.closed


@pytest.mark.parametrize("at", [b"rollback", b"BEGIN"])
def test_a_signal_while_a_transaction_is_begun_anew(batches: Batches, at: bytes) -> None:
    """Behind a claim that was lost there is none for a moment: what was sent then would be committed by
    itself."""
    conn = batches.bench.conn
    real = conn._sent

    def sent(text: bytes) -> Any:
        if conn.late is not None and text.startswith(at):
            raise OutOfTimeError
        return real(text)

    def goes_on(tx: Tx, task: Task) -> None:
        with suppress(OutOfTimeError):
            good(tx, task)
        with suppress(psycopg.Error):
            tx.execute(EFFECT, [-1])

    def taken(tx: Tx, task: Task) -> None:
        good(tx, task)
        batches.bench.db.execute(
            "update runner.task set fence = fence + 1 where task_id = %s", [task.id]
        )

    conn._sent = sent  # type: ignore[method-assign]
    batches.claim(taken, goes_on, good)
    with pytest.raises(Disconnected) as lost:
        batches.work_through()
    assert set(left_of(batches, lost)) == {0, 1}
    assert batches.bench.db.execute("select 1 from effect where n = -1").fetchone() is None


def cannot_adapt(tx: Tx, task: Task) -> None:
    tx.execute("select %s", [object()])


def too_few(tx: Tx, task: Task) -> None:
    tx.execute("select %s, %s", [1])


def refused(tx: Tx, task: Task) -> None:
    tx.execute("commit")


def refused_block(tx: Tx, task: Task) -> None:
    tx.commit()


@pytest.mark.parametrize("way", [cannot_adapt, too_few, refused, refused_block])
def test_what_fails_before_it_is_sent_costs_no_connection(batches: Batches, way: Any) -> None:
    """And is its own failure."""
    batches.run(good, way, good)
    assert batches.effects() == [0, 2]
    ((state, attempt, cause),) = batches.left().values()
    assert (state, attempt) == ("scheduled", 1)
    assert cause not in (None, "connection lost", "interrupted")
    assert batches.outcomes() == {0: OK, 1: RETRIED, 2: OK}


def test_a_stop_before_the_next_one_writes_what_has_failed(batches: Batches) -> None:
    real = batches.executor._follows

    def follows() -> bool:
        found = real()
        batches.stopping = True
        return found

    batches.executor._follows = follows  # type: ignore[method-assign]
    batches.run(defers(batches), good, good)
    failure = ("scheduled", 1, "psycopg.errors.UniqueViolation")
    assert batches.left() == {0: failure, 1: ("ready", 0, None), 2: ("ready", 0, None)}
    assert batches.outcomes() == {0: RETRIED}


def test_nothing_is_sent_ahead_where_nothing_is_ours(batches: Batches) -> None:
    """As behind a pooler, or in a test's own session."""
    conn = batches.bench.conn
    conn.ours = False
    seen: list[int] = []

    def looks(tx: Tx, task: Task) -> None:
        seen.append(tx.unanswered)
        good(tx, task)

    batches.run(looks, looks, looks)
    assert seen == [0, 0, 0]
    assert batches.effects() == [0, 1, 2]
