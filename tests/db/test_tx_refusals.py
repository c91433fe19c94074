"""Statements that would end a handler's transaction, in every spelling, and those that only look so."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

from runner.errors import TransactionMisuse
from runner.store.tx import Tx
from runner.store.wording import wording_of
from tests.db.stage import INSERT, effects, one, rolled_back
from tests.servers import Connection

ENDS = [
    "commit",
    "COMMIT;",
    "  commit",
    "\n\tCommit work",
    "-- why\ncommit",
    "-- why\rcommit",
    "-- why\r\ncommit and chain",
    "/* a */commit",
    "/* a /* nested */ b */ commit",
    "/**/-- x\n/***/ ;; commit",
    ";commit",
    ";;\n;commit transaction",
    "end",
    "END TRANSACTION",
    "rollback",
    "Rollback Work",
    "rollback transaction and no chain",
    "rollback;select 1",
    "abort",
    "prepare transaction 'x'",
    "PREPARE\n TRANSACTION 'x'",
    "commit prepared 'x'",
    "rollback prepared 'to'",
    "\fcommit",
]
HARMLESS = [
    "rollback to a",
    "ROLLBACK TO SAVEPOINT a",
    "rollback work to a",
    "rollback transaction to savepoint a",
    "savepoint commit",
    "release a",
    "prepare commit as select 1",
    "select 1 -- commit",
    "-- commit\nselect 1",
    "/* commit */ select 1",
    "/* a */ select case when true then 1 /* b */ end",
    "/* a */ select 1 as /* b */ commit",
    "select 'commit'",
    "committed",
    "endless",
    "ended as (select 1)",
    "",
    ";",
    "/* never closed commit",
    "--",
]


@pytest.mark.db
def test_statements_that_end_the_transaction_are_refused(tx: Tx, db: Connection) -> None:
    tx.execute(INSERT)
    for text in ENDS:
        for statement in (text, text.encode(), sql.SQL(text)):
            with pytest.raises(TransactionMisuse):
                tx.execute(statement)
            with pytest.raises(TransactionMisuse):
                tx.cursor().execute(statement)
    assert rolled_back(tx, db)


@pytest.mark.parametrize("text", HARMLESS)
def test_statements_that_only_look_like_it_are_not(text: str) -> None:
    assert wording_of(text).ends is None


def test_many_comments_are_read_in_no_time() -> None:
    assert wording_of("/* a */ " * 5000 + "select 1").ends is None
    assert wording_of("/* a */ " * 5000 + "commit").ends == "COMMIT"
    assert wording_of("-- a\n" * 5000 + "/*" * 5000).ends is None


@pytest.mark.db
def test_a_rollback_to_a_savepoint_works(tx: Tx, db: Connection) -> None:
    tx.execute("savepoint a")
    tx.execute(INSERT)
    tx.execute("/* undo */ rollback to a")
    assert one(tx, "select count(*) from effect") == 0
    assert rolled_back(tx, db)


def with_transaction(tx: Tx) -> None:
    with tx.transaction():
        tx.execute(INSERT)


def with_block(tx: Tx) -> None:
    with tx:
        tx.execute(INSERT)


@pytest.mark.db
@pytest.mark.parametrize(
    "use",
    [
        Tx.commit,
        Tx.rollback,
        Tx.close,
        lambda tx: setattr(tx, "autocommit", True),
        lambda tx: setattr(tx, "autocommit", False),
        lambda tx: tx.set_autocommit(True),
        with_block,
    ],
    ids=["commit", "rollback", "close", "autocommit", "no autocommit", "set_autocommit", "with"],
)
@pytest.mark.parametrize("touched", [False, True])
def test_methods_that_end_it_are_refused(
    tx: Tx, db: Connection, touched: bool, use: Callable[[Tx], None]
) -> None:
    if touched:
        tx.execute(INSERT)
    with pytest.raises(TransactionMisuse):
        use(tx)
    assert not tx.closed
    tx.execute(INSERT)
    assert rolled_back(tx, db)


@pytest.mark.db
@pytest.mark.parametrize(
    "text", ["insert into effect values (1); commit", "select 1; rollback; begin", "select 1;end"]
)
def test_an_end_behind_another_statement_shows(tx: Tx, text: str) -> None:
    tx.execute(INSERT)
    psycopg.Cursor(tx).execute(text)  # around the guard, which refuses it
    marker = one(tx, "select current_setting('runner.claim', true)") if tx.open else None
    assert tx.ended_by_handler or not marker


@pytest.mark.db
def test_after_such_an_end_nothing_more_is_begun(tx: Tx, db: Connection) -> None:
    """Else a second transaction, marked as the first, would pass for the first."""
    psycopg.Cursor(tx).execute("insert into effect values (1); commit")
    with pytest.raises(TransactionMisuse):
        tx.execute(INSERT)
    with pytest.raises(TransactionMisuse):
        with_transaction(tx)
    assert tx.ended_by_handler
    assert effects(db) == 1


@pytest.mark.db
def test_a_cursor_around_the_guard_shows_too(tx: Tx) -> None:
    psycopg.Cursor(tx).execute(INSERT)
    psycopg.Cursor(tx).execute("commit")
    assert tx.ended_by_handler
