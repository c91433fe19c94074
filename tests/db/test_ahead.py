"""The COMMIT of one task travels with the first statement of the next: what fails of it is the affair of
the first one, and the next one does not notice."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest
from psycopg import sql

from runner.clock import now
from runner.handling.session import Disconnected
from runner.store.tx import Tx
from runner.task import Task
from runner.wire import Kind, Outcome
from tests.db.attempting import Bench
from tests.db.batching import EFFECT, Batches, Handler, good
from tests.servers import Connection, wait_until

pytestmark = [pytest.mark.db, pytest.mark.direct]
OK, RETRIED, LOST = Outcome.OK, Outcome.RETRIED, Outcome.LOST
PREPARED = (
    6  # executions after which psycopg has a statement prepared, and it can take a COMMIT along
)


@pytest.fixture
def batches(db: Connection, db_url: str) -> Iterator[Batches]:
    db.execute("create table effect (n bigint)")
    sink = os.open(os.devnull, os.O_WRONLY)
    found = Batches(Bench(db, db_url), sink)
    found.run(*[good] * PREPARED)
    db.execute("truncate effect")
    found.told()
    yield found
    found.close()
    os.close(sink)
    if not found.bench.conn.closed:
        found.bench.conn.close()


@contextmanager
def alarm(seconds: float, strike: Callable[[], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, lambda *_: strike())
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# That a COMMIT waits for a lock, and that a statement sleeps.
WAITS = (
    "select from pg_locks l join pg_database d on d.oid = l.database"
    " where d.datname = current_database() and l.locktype = 'advisory' and not l.granted"
)
SLEEPS = (
    "select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"
)


def once(db: Connection, so: str, strike: Callable[[], None]) -> Callable[[], None]:
    """Strikes when a query has a row, for an alarm: time alone says little on a busy machine."""

    def wait() -> None:
        wait_until(lambda: db.execute(so).fetchone() is not None)
        strike()

    return wait


def silent(tx: Tx, task: Task) -> None:
    pass


def fails(tx: Tx, task: Task) -> None:
    good(tx, task)
    raise ValueError("of its own")


def fails_at_once(tx: Tx, task: Task) -> None:
    raise ValueError("of its own")


def plain(tx: Tx, task: Task) -> None:
    tx.execute(sql.SQL("insert into effect values ({})").format(task.id), prepare=False)


def in_a_block(tx: Tx, task: Task) -> None:
    with tx.transaction():
        good(tx, task)


def by_block_of_psycopg(tx: Tx, task: Task) -> None:
    with psycopg.Transaction(tx):
        good(tx, task)


def by_copy(tx: Tx, task: Task) -> None:
    with tx.cursor() as cursor, cursor.copy("copy effect from stdin") as copy:
        copy.write_row((task.id,))


def by_many(tx: Tx, task: Task) -> None:
    with tx.cursor() as cursor:
        cursor.executemany(EFFECT, [(task.id,)])


def in_a_pipeline(tx: Tx, task: Task) -> None:
    with tx.pipeline():
        good(tx, task)


def by_another_cursor(tx: Tx, task: Task) -> None:
    psycopg.ClientCursor(tx).execute(EFFECT, [task.id])


def by_a_named_cursor(tx: Tx, task: Task) -> None:
    with tx.cursor("named") as cursor:
        assert cursor.execute("select 1").fetchall() == [(1,)]
    good(tx, task)


def by_stream(tx: Tx, task: Task) -> None:
    with tx.cursor() as cursor:
        assert list(cursor.stream("select generate_series(1, 3)")) == [(1,), (2,), (3,)]
    good(tx, task)


def isolated(tx: Tx, task: Task) -> None:
    tx.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    shown = tx.execute("show transaction_isolation").fetchone()
    assert shown == ("serializable",)
    good(tx, task)


def looks(tx: Tx, task: Task) -> None:
    with suppress(psycopg.errors.UniqueViolation), tx.transaction():
        tx.execute("select 1 / %s", [1])
    assert tx.execute("select current_setting('runner.claim')").fetchone() == (tx.marker,)
    good(tx, task)


def in_a_thread(tx: Tx, task: Task) -> None:
    thread = threading.Thread(target=good, args=(tx, task))
    thread.start()
    thread.join()


WAYS = [good, plain, in_a_block, by_block_of_psycopg, by_copy, by_many, in_a_pipeline]
WAYS += [by_another_cursor, by_a_named_cursor, by_stream, isolated, looks, in_a_thread]


def defers(batches: Batches) -> Handler:
    """A handler whose COMMIT fails, and its table."""
    batches.bench.db.execute(
        "create table if not exists late (n int unique deferrable initially deferred)"
    )

    def handler(tx: Tx, task: Task) -> None:
        good(tx, task)
        tx.execute("insert into late values (1), (1)")

    return handler


@pytest.mark.parametrize("way", WAYS)
def test_whatever_comes_next_takes_it_along(batches: Batches, way: Handler) -> None:
    batches.run(good, way, good)
    assert batches.effects() == [0, 1, 2]
    assert batches.left() == {}
    assert batches.outcomes() == {0: OK, 1: OK, 2: OK}


@pytest.mark.parametrize("way", WAYS)
def test_a_commit_that_fails_is_nothing_to_the_next(batches: Batches, way: Handler) -> None:
    batches.run(defers(batches), way, good)
    assert batches.effects() == [1, 2]
    assert batches.left() == {0: ("scheduled", 1, "psycopg.errors.UniqueViolation")}
    assert batches.outcomes() == {0: RETRIED, 1: OK, 2: OK}


@pytest.mark.parametrize("way", WAYS)
def test_a_claim_that_was_taken_is_nothing_to_the_next(batches: Batches, way: Handler) -> None:
    def taken(tx: Tx, task: Task) -> None:
        good(tx, task)
        batches.bench.db.execute(
            "update runner.task set fence = fence + 1 where task_id = %s", [task.id]
        )

    batches.run(taken, way, good)
    assert batches.effects() == [1, 2]
    assert list(batches.left()) == [0]
    assert batches.outcomes() == {0: LOST, 1: OK, 2: OK}


@pytest.mark.parametrize("first", [good, "defers"])
@pytest.mark.parametrize("second", [silent, fails, fails_at_once, "defers"])
def test_whatever_the_two_come_to(batches: Batches, first: Any, second: Any) -> None:
    late = defers(batches)
    handlers = [late if each == "defers" else each for each in (first, second)]
    batches.run(*handlers, good, good)
    bad = {place for place, each in enumerate(handlers) if each not in (good, silent)}
    quiet = {1} if second is silent else set()
    assert batches.effects() == sorted({0, 1, 2, 3} - bad - quiet)
    assert set(batches.left()) == bad
    expected = {place: RETRIED if place in bad else OK for place in range(4)}
    assert batches.outcomes() == expected


@pytest.fixture
def held(db: Connection, batches: Batches) -> None:
    """From now on a COMMIT waits until `db` has given its lock back."""
    db.execute(
        "create function hold() returns trigger language plpgsql as"
        " $$ begin perform pg_advisory_xact_lock(7); return null; end $$"
    )
    db.execute(
        "create constraint trigger hold after insert on effect deferrable initially deferred"
        " for each row execute function hold()"
    )
    db.execute("select pg_advisory_lock(7)")


@pytest.mark.usefixtures("held")
def test_it_is_not_waited_for(batches: Batches) -> None:
    """The next handler begins while the COMMIT before is held up; that is through before the next one's
    statement is answered."""
    db = batches.bench.db
    seen: list[Any] = []

    def begins(tx: Tx, task: Task) -> None:
        seen.append(batches.left()[0][0])
        db.execute("select pg_advisory_unlock_all()")
        tx.execute("select %s + 1", [task.id])
        seen.append(batches.left().get(0))

    batches.run(good, begins)
    assert seen == ["running", None]
    kinds = [(event.kind, event.task) for event in batches.told()]
    first, second = batches.ids
    assert kinds.index((Kind.STARTED, second)) < kinds.index((Kind.FINISHED, first))


@pytest.mark.usefixtures("held")
def test_a_time_limit_that_strikes_in_anothers_commit_charges_nobody(batches: Batches) -> None:
    def waits(tx: Tx, task: Task) -> None:
        interrupts = batches.bench.interrupts
        interrupts.arm(now() - 1)  # its time is up …
        strike = once(db, WAITS, lambda: interrupts._trap(15, None))
        with alarm(0.2, strike):  # … while it waits for the one before
            good(tx, task)

    db = batches.bench.db
    batches.run(good, waits, lambda tx, task: db.execute("select pg_advisory_unlock_all()"))
    refunded = ("scheduled", 0, "interrupted")
    assert batches.left() == {0: refunded, 1: refunded}


def test_rows_that_are_elsewhere_by_now_are_completed(batches: Batches) -> None:
    """Changed by somebody who leaves the claim alone, or moved by VACUUM FULL."""
    batches.claim(good, good, fails, good)
    claimed = [each.ctid for each in batches.rows]
    for change in ("update runner.task set priority = 6", "vacuum full runner.task"):
        batches.bench.db.execute(change)
    moved = "select ctid::text from runner.task order by task_id"
    assert not set(claimed) & {each[0] for each in batches.bench.db.execute(moved)}
    batches.work_through()
    assert batches.effects() == [0, 1, 3]
    assert [*batches.left()] == [2]
    assert batches.outcomes() == {0: OK, 1: OK, 2: RETRIED, 3: OK}


def test_a_stop_before_the_next_one_hears_of_it(batches: Batches) -> None:
    real = batches.executor._follows

    def follows() -> bool:
        found = real()
        batches.stopping = True  # a stop arrives when the COMMIT is on its way
        return found

    batches.executor._follows = follows  # type: ignore[method-assign]
    batches.run(good, good)
    assert batches.effects() == [0]
    assert batches.left() == {1: ("ready", 0, None)}
    assert batches.outcomes() == {0: OK}


def test_a_connection_that_is_lost_leaves_both(batches: Batches) -> None:
    def cut(tx: Tx, task: Task) -> None:
        batches.bench.db.execute("select pg_terminate_backend(%s, 5000)", [tx.pgconn.backend_pid])
        good(tx, task)

    batches.claim(good, cut, good)
    with pytest.raises(Disconnected) as lost:
        batches.work_through()
    left = [one.claim.task_id for one in lost.value.left]
    assert sorted(left) == batches.ids[:2]
    assert {one.claim.task_id for one in lost.value.left if one.committing} == {batches.ids[0]}


def test_a_prepared_statement_that_fails_is_the_next_ones_affair(batches: Batches) -> None:
    batches.bench.db.execute("alter table effect add unique (n)")

    def twice(tx: Tx, task: Task) -> None:
        tx.execute(EFFECT, [batches.ids[0]])

    batches.run(good, twice, good)
    assert batches.effects() == [0, 2]
    assert batches.left() == {1: ("scheduled", 1, "psycopg.errors.UniqueViolation")}


def test_a_failure_that_comes_late_is_told_as_its_own(batches: Batches) -> None:
    """To the hook, once, with its task; and not what the one behind it has raised."""
    told: list[tuple[int, type[BaseException]]] = []
    hook = lambda task, error: told.append((batches.ids.index(task.id), type(error)))  # noqa: E731
    batches.bench.attempts.on_error = hook
    batches.run(defers(batches), fails, good)
    unique = psycopg.errors.UniqueViolation
    assert sorted(told, key=lambda each: each[0]) == [(0, unique), (1, ValueError)]
    assert batches.executor._sent is None
    assert batches.bench.session.uncertain is None
