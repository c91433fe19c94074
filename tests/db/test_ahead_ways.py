"""Ways of psycopg to use a connection first of all while the COMMIT of the task before is unanswered:
each does what it does on any other connection."""

import threading
import time
from contextlib import suppress
from datetime import timedelta

import psycopg
import pytest
from psycopg import pq
from psycopg.types import TypeInfo

from runner.store.ahead import STALE_SECONDS
from runner.store.tx import Tx
from runner.task import Task
from tests.db.batching import EFFECT, Batches, Handler, good
from tests.db.test_ahead import OK, RETRIED, batches, defers

__all__ = ["batches"]
pytestmark = [pytest.mark.db, pytest.mark.direct]


def stream_of_another_class(tx: Tx, task: Task) -> None:
    assert list(psycopg.ClientCursor(tx).stream("select 1")) == [(1,)]
    good(tx, task)


def raw_stream(tx: Tx, task: Task) -> None:
    assert list(psycopg.RawCursor(tx).stream("select 1")) == [(1,)]
    good(tx, task)


def named_cursor_of_psycopg(tx: Tx, task: Task) -> None:
    with psycopg.ServerCursor(tx, "named") as cursor:
        assert cursor.execute("select 1").fetchall() == [(1,)]
    good(tx, task)


def copy_of_another_class(tx: Tx, task: Task) -> None:
    with psycopg.ClientCursor(tx).copy("copy effect from stdin") as copy:
        copy.write_row((task.id,))


def copy_out(tx: Tx, task: Task) -> None:
    with tx.cursor().copy("copy (select 1) to stdout") as copy:
        assert list(copy.rows()) == [("1",)]
    good(tx, task)


def many_returning(tx: Tx, task: Task) -> None:
    with tx.cursor() as cursor:
        cursor.executemany(f"{EFFECT} returning n", [(task.id,)], returning=True)
        assert cursor.fetchone() == (task.id,)


def binary(tx: Tx, task: Task) -> None:
    assert tx.execute("select %b::int", [1], binary=True).fetchone() == (1,)
    good(tx, task)


def type_info(tx: Tx, task: Task) -> None:
    found = TypeInfo.fetch(tx, "int4")
    assert found is not None
    found.register(tx)
    good(tx, task)


def state(tx: Tx, task: Task) -> None:
    assert tx.info.transaction_status is not pq.TransactionStatus.ACTIVE
    assert tx.info.pipeline_status is pq.PipelineStatus.OFF
    good(tx, task)


def notifications(tx: Tx, task: Task) -> None:
    assert list(tx.notifies(timeout=0.05)) == []
    good(tx, task)


def two_phases(tx: Tx, task: Task) -> None:
    with suppress(psycopg.ProgrammingError):
        tx.tpc_begin(tx.xid(1, "a", "b"))
    good(tx, task)


def attributes(tx: Tx, task: Task) -> None:
    tx.read_only, tx.deferrable = False, True
    good(tx, task)


def larger_than_sockets(tx: Tx, task: Task) -> None:
    """Prepared, too, so that it goes along with a COMMIT."""
    for _ in range(7):
        found = tx.execute("select length(%s)", ["x" * 4_000_000]).fetchone()
        assert found == (4_000_000,)
    good(tx, task)


def several_threads(tx: Tx, task: Task) -> None:
    threads = [threading.Thread(target=tx.execute, args=("select 1",)) for _ in range(4)]
    threads.append(threading.Thread(target=good, args=(tx, task)))
    for each in threads:
        each.start()
    for each in threads:
        each.join()


WAYS = [stream_of_another_class, raw_stream, named_cursor_of_psycopg, copy_of_another_class]
WAYS += [copy_out, many_returning, binary, type_info, state, notifications, two_phases]
WAYS += [attributes, larger_than_sockets, several_threads]


@pytest.mark.parametrize("way", WAYS)
def test_any_way_may_come_first(batches: Batches, way: Handler) -> None:
    batches.run(good, way, good, way, good)
    assert batches.effects() == [0, 1, 2, 3, 4]
    assert batches.left() == {}
    assert batches.outcomes() == dict.fromkeys(range(5), OK)


@pytest.mark.parametrize("way", WAYS)
def test_any_way_may_come_behind_a_failure(batches: Batches, way: Handler) -> None:
    batches.run(defers(batches), way, good)
    assert batches.effects() == [1, 2]
    assert batches.left() == {0: ("scheduled", 1, "psycopg.errors.UniqueViolation")}
    assert batches.outcomes() == {0: RETRIED, 1: OK, 2: OK}


@pytest.mark.parametrize("before", [good, lambda tx, task: None])
def test_the_transaction_begins_with_the_first_statement(batches: Batches, before: Handler) -> None:
    """However long the handler has done other things before: now() is of then."""
    ages = []

    def late(tx: Tx, task: Task) -> None:
        time.sleep(STALE_SECONDS * 4)
        ages.extend(tx.execute("select clock_timestamp() - now()").fetchone() or ())
        good(tx, task)

    batches.run(before, late, late, good)
    assert batches.left() == {}
    assert len(ages) == 2
    assert max(ages) < timedelta(seconds=STALE_SECONDS * 2)


def test_one_that_is_late_is_not_charged_for_the_one_before(batches: Batches) -> None:
    def late(tx: Tx, task: Task) -> None:
        time.sleep(STALE_SECONDS * 2)
        good(tx, task)

    batches.run(defers(batches), late, good)
    assert batches.effects() == [1, 2]
    assert batches.outcomes() == {0: RETRIED, 1: OK, 2: OK}
