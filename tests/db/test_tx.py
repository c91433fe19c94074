"""The connection in a handler's hands: one transaction, however it is used, and only ours to end."""

import threading
from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

from runner.errors import TransactionMisuse
from runner.store.tx import Tx
from tests.db.stage import INSERT, Background, effects, one, rolled_back
from tests.servers import Connection

pytestmark = pytest.mark.db


def test_untouched_it_sends_nothing(tx: Tx) -> None:
    assert not tx.begun
    assert not tx.open
    tx.take_back(one_statement=True)
    assert tx.autocommit


def test_the_first_statement_begins(tx: Tx, db: Connection) -> None:
    tx.execute(INSERT)
    assert one(tx, "select current_setting('runner.claim')") == tx.marker
    assert rolled_back(tx, db)


def plain_cursor(tx: Tx) -> None:
    psycopg.Cursor(tx).execute(INSERT)


def client_cursor(tx: Tx) -> None:
    psycopg.ClientCursor(tx).execute("insert into effect values (%s)", [1])


def raw_cursor(tx: Tx) -> None:
    psycopg.RawCursor(tx).execute("insert into effect values ($1)", [1])


def named_cursor(tx: Tx) -> None:
    with tx.cursor("named") as cursor:
        cursor.execute("select 1")
        assert cursor.fetchall() == [(1,)]
    tx.execute(INSERT)


def server_cursor(tx: Tx) -> None:
    with psycopg.ServerCursor(tx, "named") as cursor:
        cursor.execute("select generate_series(1, 3)")
        assert len(cursor.fetchall()) == 3
    tx.execute(INSERT)


def copy_in(tx: Tx) -> None:
    with tx.cursor() as cursor, cursor.copy("copy effect from stdin") as copy:
        copy.write_row([1])


def copy_in_plain(tx: Tx) -> None:
    with psycopg.Cursor(tx) as cursor, cursor.copy("copy effect from stdin") as copy:
        copy.write_row([1])


def stream(tx: Tx) -> None:
    assert list(tx.cursor().stream("insert into effect values (1), (2) returning n")) == [
        (1,),
        (2,),
    ]


def many(tx: Tx) -> None:
    tx.cursor().executemany("insert into effect values (%s)", [[1], [2], [3]])


def many_plain(tx: Tx) -> None:
    psycopg.Cursor(tx).executemany("insert into effect values (%s)", [[1], [2], [3]])


def many_client(tx: Tx) -> None:
    psycopg.ClientCursor(tx).executemany("insert into effect values (%s)", [[1], [2]])


def many_returning(tx: Tx) -> None:
    cursor = tx.cursor()
    cursor.executemany("insert into effect values (%s) returning n", [[1], [2]], returning=True)
    assert cursor.fetchone() == (1,)


def pipeline(tx: Tx) -> None:
    with tx.pipeline():
        tx.execute(INSERT)
        tx.execute(INSERT)


def pipeline_of_many(tx: Tx) -> None:
    with tx.pipeline(), tx.cursor() as cursor:
        cursor.executemany("insert into effect values (%s)", [[1], [2]])
        cursor.execute(INSERT)


def block(tx: Tx) -> None:
    with tx.transaction():
        tx.execute(INSERT)


def nested_blocks(tx: Tx) -> None:
    with tx.transaction(), tx.transaction():
        tx.execute(INSERT)


def block_in_pipeline(tx: Tx) -> None:
    with tx.pipeline(), tx.transaction():
        tx.execute(INSERT)


def bytes_and_composed(tx: Tx) -> None:
    tx.execute(INSERT.encode())
    tx.execute(sql.SQL("insert into {} values (2)").format(sql.Identifier("effect")))


def in_a_thread(tx: Tx) -> None:
    Background(lambda: tx.execute(INSERT)).result()


WAYS: list[Callable[[Tx], None]] = [
    *(plain_cursor, client_cursor, raw_cursor, named_cursor, server_cursor, copy_in),
    *(copy_in_plain, stream, many, many_plain, many_client, many_returning, pipeline),
    *(pipeline_of_many, block, nested_blocks, block_in_pipeline, bytes_and_composed, in_a_thread),
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_to_write_is_inside_the_transaction(
    tx: Tx, db: Connection, way: Callable[[Tx], None]
) -> None:
    way(tx)
    assert rolled_back(tx, db)
    tx.lend()
    way(tx)
    tx.take_back(one_statement=True)
    tx.end(b"COMMIT")
    assert effects(db) >= 1


def test_a_block_that_fails_undoes_itself_only(tx: Tx, db: Connection) -> None:
    tx.execute(INSERT)
    with pytest.raises(psycopg.errors.DivisionByZero), tx.transaction():
        tx.execute("insert into effect select 1/0")
    assert not tx.failed
    assert one(tx, "select count(*) from effect") == 1
    with tx.transaction(force_rollback=True):
        tx.execute(INSERT)
    with tx.transaction() as inner:
        tx.execute(INSERT)
        raise psycopg.Rollback(inner)
    assert one(tx, "select count(*) from effect") == 1
    assert rolled_back(tx, db)


def test_isolation_levels_work(tx: Tx) -> None:
    tx.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    assert one(tx, "show transaction_isolation") == "serializable"


def test_a_handler_may_set_its_transaction(tx: Tx) -> None:
    tx.execute("set transaction isolation level repeatable read")
    assert one(tx, "show transaction_isolation") == "repeatable read"


def test_read_only_and_the_next_task_is_not(tx: Tx, db: Connection) -> None:
    tx.read_only = True
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        tx.execute(INSERT)
    tx.take_back(one_statement=True)
    tx.end(b"ROLLBACK")
    tx.restore()
    tx.lend()
    tx.execute(INSERT)
    assert rolled_back(tx, db)


def test_our_bounds_do_not_bind_the_handler(tx: Tx) -> None:
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    assert [one(tx, f"show {name}") for name in names] == ["0", "0", "0"]
    tx.take_back(one_statement=True)
    tx.end(b"COMMIT")
    assert "0" not in [one(tx, f"show {name}") for name in names]


def test_a_rollback_does_not_bring_our_bounds_back(tx: Tx) -> None:
    for _ in range(2):
        assert one(tx, "show statement_timeout") == "0"
        tx.take_back(one_statement=True)
        tx.end(b"ROLLBACK")
        tx.lend()
    assert one(tx, "show statement_timeout") == "0"


def test_between_loans_it_is_in_autocommit(tx: Tx, db: Connection) -> None:
    tx.execute(INSERT)
    tx.take_back(one_statement=True)
    tx.end(b"COMMIT")
    tx.execute(INSERT)
    assert effects(db) == 2
    assert not tx.open


def test_a_keyed_task_that_sent_nothing_is_completed_in_a_transaction(tx: Tx) -> None:
    tx.take_back(one_statement=False)
    tx.execute(INSERT)
    assert tx.open
    assert one(tx, "select current_setting('runner.claim')") == tx.marker
    tx.end(b"ROLLBACK")


def test_a_failed_transaction_shows(tx: Tx) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        tx.execute("select 1/0")
    assert tx.failed
    tx.take_back(one_statement=True)
    tx.end(b"ROLLBACK")
    assert not tx.failed


class TestThreads:
    """A thread that a handler left behind writes into nobody's transaction."""

    def test_after_the_handler(self, tx: Tx, db: Connection) -> None:
        go = threading.Event()
        call = Background(lambda: (go.wait(10), tx.execute(INSERT)))
        tx.take_back(one_statement=True)
        tx.end(b"COMMIT")
        go.set()
        with pytest.raises(TransactionMisuse):
            call.result()
        assert effects(db) == 0

    def test_in_the_middle_of_the_next_task(self, tx: Tx, db: Connection) -> None:
        go = threading.Event()
        tx.execute(INSERT)
        call = Background(lambda: (tx.execute(INSERT), go.wait(10), tx.execute(INSERT)))
        while one(tx, "select count(*) from effect") != 2:
            pass
        tx.take_back(one_statement=True)
        tx.end(b"COMMIT")
        tx.restore()
        tx.lend()
        tx.execute("select 1")
        go.set()
        with pytest.raises(TransactionMisuse):
            call.result()
        tx.take_back(one_statement=True)
        tx.end(b"COMMIT")
        assert effects(db) == 2
