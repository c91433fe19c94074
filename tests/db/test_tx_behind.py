"""An end of the transaction behind another statement: refused before any of the string has run."""

import psycopg
import pytest

from runner.errors import TransactionMisuse
from runner.store.tx import Tx
from tests.db.stage import INSERT, effects, rolled_back
from tests.servers import Connection

pytestmark = pytest.mark.db

ENDS = [
    f"{INSERT}; commit",
    f"{INSERT};COMMIT;",
    f"{INSERT}; /* why */ -- so\n rollback",
    f"{INSERT}; commit; begin",
    f"{INSERT}; end; begin; {INSERT}",
    f"{INSERT}; ; abort",
    f"{INSERT}; prepare transaction 'x'",
]
HARMLESS = [
    f"{INSERT}; {INSERT}",
    f"savepoint a; {INSERT}; rollback to a; {INSERT}",
    "select '; commit'",
    "select $$ ; commit $$",
    "do $$ begin perform 1; end $$",
    "create function pg_temp.f() returns int language plpgsql as $$ begin perform 1; return 2; end $$",
    "select 1; select case when true then 1 end",
    "select 1 -- ; commit",
]


@pytest.mark.parametrize("text", ENDS)
def test_refused_whole(text: str, tx: Tx, db: Connection) -> None:
    with pytest.raises(TransactionMisuse) as refused:
        tx.execute(text)
    assert "behind another statement" in str(refused.value)
    assert effects(db) == 0
    assert rolled_back(tx, db)


@pytest.mark.parametrize("text", HARMLESS)
def test_let_through(text: str, tx: Tx, db: Connection) -> None:
    tx.execute(INSERT)
    tx.execute(text)
    assert rolled_back(tx, db)


def test_through_every_way_of_sending(tx: Tx, db: Connection) -> None:
    text = f"{INSERT}; commit"
    with pytest.raises(TransactionMisuse), tx.cursor() as cursor:
        cursor.execute(text)
    tx.end(b"ROLLBACK")
    tx.lend()
    with pytest.raises(TransactionMisuse), tx.cursor().copy("copy effect to stdout; commit"):
        pass
    tx.end(b"ROLLBACK")
    tx.lend()
    with pytest.raises(TransactionMisuse), tx.transaction():
        tx.execute(text)
    assert rolled_back(tx, db)


def test_a_plain_error_stays_what_it_is(tx: Tx, db: Connection) -> None:
    with pytest.raises(psycopg.errors.SyntaxError):
        tx.execute("selec 1")
    assert rolled_back(tx, db)
