"""What a handler leaves in its session, or on its connection, is nothing to the next of its batch."""

import gc
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from runner.handling.session import Disconnected
from runner.store.tx import Tx
from runner.task import Task
from tests.db.attempting import Bench, good
from tests.db.grouping import Groups
from tests.db.stage import INSERT, effects

pytestmark = pytest.mark.db
ROWS = "select generate_series(1, 1000)"


def streams(tx: Tx, task: Task) -> None:
    """Its exception has a traceback, that a frame, that a variable, and that a psycopg's generator."""
    rows = tx.cursor().stream(ROWS)
    for _ in rows:
        raise ValueError("an odd row")


def copies(tx: Tx, task: Task) -> None:
    copy = tx.cursor().copy(f"copy ({ROWS}) to stdout")
    copy.__enter__()
    raise ValueError("never left")


@pytest.mark.direct
@pytest.mark.parametrize("handler", [streams, copies])
def test_a_generator_in_a_traceback_locks_nobody_out(bench: Bench, handler: Any) -> None:
    with pytest.raises(Disconnected) as lost:
        bench.batch(good, handler, good)
    (left,) = lost.value.left
    verdict = left.judgement(left.claim)
    assert (verdict.failed, verdict.cause) == (True, "ValueError")
    assert effects(bench.db) == 1


@pytest.mark.direct
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_nor_one_that_a_thread_has_left(bench: Bench) -> None:
    """The thread is over, and so nobody can release what it held."""

    def streams_in_a_thread(tx: Tx, task: Task) -> None:
        rows = tx.cursor().stream(ROWS)
        thread = threading.Thread(target=next, args=[rows])
        thread.start()
        thread.join()
        raise ValueError("rows are kept")

    with pytest.raises(Disconnected) as lost:
        bench.batch(good, streams_in_a_thread)
    (left,) = lost.value.left
    assert left.judgement(left.claim).cause == "ValueError"
    del lost, left
    gc.collect()  # here, where its complaint is expected


@pytest.mark.direct
def test_nor_in_a_group(groups: Groups) -> None:
    with pytest.raises(Disconnected) as lost:
        groups.run(lambda tx, task: None, streams)
    assert not any(left.judgement(left.claim).failed for left in lost.value.left)


@pytest.mark.direct
def test_a_lock_that_is_kept_is_not_the_next_ones(bench: Bench) -> None:
    kept = []

    def reads_all(tx: Tx, task: Task) -> None:
        tx.execute(INSERT)
        kept.append(tx.cursor().copy(f"copy ({ROWS}) to stdout"))
        assert len(list(kept[0].__enter__())) > 0

    def in_a_thread(tx: Tx, task: Task) -> None:
        helper = threading.Thread(target=tx.execute, args=[INSERT], daemon=True)
        helper.start()
        helper.join(5)
        assert not helper.is_alive()

    assert bench.batch(good, reads_all, in_a_thread) == ["OK"] * 3
    assert effects(bench.db) == 3


@pytest.mark.direct
def test_what_was_listened_to_is_not_told_to_the_next(bench: Bench) -> None:
    told: list[psycopg.Notify] = []

    def listens(tx: Tx, task: Task) -> None:
        tx.execute("listen here")
        tx.execute("notify here")

    def asks(tx: Tx, task: Task) -> None:
        tx.execute(INSERT)
        told.extend(tx.notifies(timeout=0))

    assert bench.batch(good, listens, asks, asks) == ["OK"] * 4
    assert told == []


@pytest.mark.parametrize("word", ["begin", "start transaction"])
def test_an_isolation_level_is_not_chained_to_the_next(bench: Bench, word: str) -> None:
    """BEGIN in a transaction warns, and chooses the level all the same."""
    levels = []

    def chooses(tx: Tx, task: Task) -> None:
        tx.execute(f"{word} isolation level serializable")
        tx.execute(INSERT)

    def asks(tx: Tx, task: Task) -> None:
        levels.append(tx.execute("show transaction_isolation").fetchone())

    assert bench.batch(good, good, chooses, asks) == ["OK"] * 4
    assert levels == [("read committed",)]


@pytest.mark.direct
def test_one_that_sends_nothing_is_completed_in_the_transaction_begun_for_it(bench: Bench) -> None:
    warnings: list[Any] = []

    def silent(tx: Tx, task: Task) -> None:
        pass

    assert (
        bench.batch(good, good, silent) == ["OK"] * 3
    )  # the first has traces of nobody knows what
    bench.conn.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
    bench.conn.execute("select 1")
    assert warnings == []  # as of a ROLLBACK of what is over


def by_class(tx: Tx) -> Any:
    return psycopg.ClientCursor(tx)


def by_factory(tx: Tx) -> Any:
    tx.cursor_factory = psycopg.RawCursor
    return tx


@pytest.mark.direct
@pytest.mark.parametrize("way", [by_class, by_factory])
@pytest.mark.parametrize(
    ("left", "look", "expected"),
    [
        ("set statement_timeout = '7s'", "show statement_timeout", "0"),
        ("set transaction isolation level serializable", "show transaction_isolation", "read committed"),
        ("select pg_advisory_lock(99)", "select count(*) from pg_locks where locktype = 'advisory'", 0),
        ("create temp table left_here ()", "select to_regclass('pg_temp.left_here')", None),
    ],
)  # fmt: skip
def test_nothing_is_left_by_a_cursor_of_another_class(
    bench: Bench, way: Callable[[Tx], Any], left: str, look: str, expected: Any
) -> None:
    """Nobody of ours has looked at what was sent by it."""
    found = []

    def leaves(tx: Tx, task: Task) -> None:
        way(tx).execute(left)
        tx.execute(INSERT)

    def looks(tx: Tx, task: Task) -> None:
        found.extend(tx.execute(look).fetchone() or ())

    assert bench.batch(good, good, leaves, looks, looks) == ["OK"] * 5
    assert found == [expected] * 2


@pytest.mark.direct
def test_how_much_is_prepared_is_put_back(bench: Bench) -> None:
    found = []

    def leaves(tx: Tx, task: Task) -> None:
        tx.prepared_max = None
        tx.execute(INSERT)

    def looks(tx: Tx, task: Task) -> None:
        found.append(tx.prepared_max)

    assert bench.batch(leaves, looks) == ["OK", "DONE"]
    assert found == [100]


@pytest.mark.direct
def test_a_table_that_is_changed_costs_one_attempt(bench: Bench) -> None:
    """What was prepared for it before gives other columns by now, and fails as long as it is kept."""

    def reads(tx: Tx, task: Task) -> None:
        tx.execute("select * from effect").fetchall()
        tx.execute(INSERT)

    assert bench.batch(*[reads] * 8) == ["OK"] * 8
    bench.db.execute("alter table effect add column m int")
    assert bench.batch(*[reads] * 3) == ["RETRIED", "OK", "OK"]
