"""What a handler leaves in its session is undone before the next one, and the connection stays good."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads

from runner.store.connect import connect
from runner.store.tx import Tx
from runner.store.wording import wording_of
from tests.db.stage import one
from tests.servers import Connection

pytestmark = pytest.mark.db

NAMES = (
    *("search_path", "statement_timeout", "lock_timeout", "application_name", "time zone"),
    *("default_transaction_isolation", "default_transaction_read_only", "role", "work_mem"),
    *("synchronous_commit", "session_authorization", "client_connection_check_interval"),
)


@pytest.fixture
def tx(db: Connection, db_url: str) -> Iterator[Tx]:
    """A worker's connection, not lent."""
    with connect(db_url, "worker test", factory=Tx) as tx:
        tx.restore()
        yield tx
        tx.lent = False


def settings(tx: Tx) -> list[object]:
    return [one(tx, f"show {name}") for name in NAMES]


def traces(tx: Tx) -> list[object]:
    """All that a session may keep, except what psycopg prepared."""
    return [
        *settings(tx),
        one(tx, "select array_agg(relname) from pg_class where relpersistence = 't'"),
        one(tx, "select array_agg(c) from pg_listening_channels() c"),
        one(
            tx,
            "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()",
        ),
        one(tx, "select array_agg(name) from pg_cursors where name <> ''"),
        one(tx, "select current_user || session_user || current_schemas(false)::text"),
        one(tx, "select count(*) from pg_prepared_statements where from_sql"),
    ]


def task(tx: Tx, *statements: str) -> None:
    """A task that leaves something."""
    tx.lend()
    for statement in statements:
        tx.execute(statement)
    tx.take_back(one_statement=True)
    tx.end(b"COMMIT")


LEFTOVERS = {
    "a setting": ["set work_mem = '1MB'", "set statement_timeout = '1s'"],
    "a search path": ["set search_path = nowhere"],
    "a setting by function": ["select set_config('work_mem', '2MB', false)"],
    "a setting in any case": ["/* x */ SeT time zone 'Asia/Tokyo'"],
    "less durable": ["set synchronous_commit = off"],
    "read only": ["set default_transaction_read_only = on"],
    "the session's characteristics": [
        "set session characteristics as transaction isolation level serializable"
    ],
    "a temporary table": ["create temporary table x (n int)"],
    "a temp table": ["create temp table x as select 1"],
    "a table made by select": ["select 1 as n into temp x"],
    "a table by its schema": ["create table pg_temp.x (n int)"],
    "a channel": ["listen a_channel"],
    "an advisory lock": ["select pg_advisory_lock(5)"],
    "an advisory lock, tried for": ["select pg_try_advisory_lock(5)"],
    "a shared advisory lock": ["select pg_advisory_lock_shared(5)"],
    "a cursor": ["declare c cursor with hold for select generate_series(1, 10)"],
    "another role": ["create role other_role", "set role other_role"],
    "in a block": ["do $$ begin perform set_config('work_mem', '3MB', false); end $$"],
    "a prepared statement": ["prepare mine as select 1"],
}


@pytest.mark.parametrize("name", LEFTOVERS)
def test_a_leftover_is_undone(db: Connection, tx: Tx, name: str) -> None:
    before = traces(tx)
    try:
        task(tx, *LEFTOVERS[name])
        assert traces(tx) != before, "it left nothing: the test has no point"
        tx.restore()
        assert traces(tx) == before
    finally:
        tx.restore(thorough=True)
        db.execute("drop role if exists other_role")


def test_what_is_hidden_in_a_function_is_undone_by_the_thorough_one(db: Connection, tx: Tx) -> None:
    db.execute(
        """create function public.hide() returns void language sql as
           $$ select set_config('work_mem', '4MB', false) $$"""
    )
    before = traces(tx)
    task(tx, "select public.hide()")
    tx.restore(thorough=True)
    assert traces(tx) == before


def test_an_ordinary_task_costs_no_round_trip(
    tx: Tx, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    task(tx, "select 1", "insert into runner.pause (queue) values ('q')")
    assert not tx.traces
    monkeypatch.setattr(tx, "execute", lambda *_, **__: pytest.fail("sent something"))
    tx.restore()


def test_words_inside_of_others_are_no_traces() -> None:
    for text in (
        "select offset_of, settings from assets",
        "update t set_of = 1",
        "select template",
        "update t set done = true where id = 1;",
        "insert into t values (1) on conflict (id) do update set n = 2",
        "-- a comment\nwith x as (insert into t values (1) on conflict do nothing returning 1) select 1",
    ):
        assert not wording_of(text).leaves_traces, text


def test_what_leaves_traces_whatever_it_begins_with() -> None:
    for text in (
        "SET work_mem = 1",
        "update t set done = true; set work_mem = 1",
        "select set_config('work_mem', '1', false)",
        "select 1 into temp t",
        "with x as (select pg_advisory_lock(1)) select 1",
        "do $$ begin end $$",
        "declare c cursor with hold for select 1",
    ):
        assert wording_of(text).leaves_traces, text


def test_our_own_bounds_come_back(tx: Tx) -> None:
    before = settings(tx)
    assert before[1] == "3s"
    task(tx, "set statement_timeout = 0", "set lock_timeout = 0")
    tx.restore()
    assert settings(tx) == before


def test_twenty_times_in_a_row(tx: Tx) -> None:
    """The statements that psycopg has prepared survive it, and so do those of a handler."""
    before = traces(tx)
    for n in range(20):
        task(tx, "set work_mem = '1MB'", "create temp table x (n int)", "listen c")
        tx.restore()
        for _ in range(3):
            assert one(tx, "select %s::int + 1", n) == n + 1
    assert traces(tx)[:-1] == before[:-1]
    assert one(tx, "select count(*) from pg_prepared_statements where not from_sql") > 0


def leave_row_factory(tx: Tx) -> None:
    tx.row_factory = dict_row


def leave_cursor_factory(tx: Tx) -> None:
    tx.cursor_factory = psycopg.ClientCursor


def leave_threshold(tx: Tx) -> None:
    tx.prepare_threshold = None


def leave_isolation(tx: Tx) -> None:
    tx.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    tx.deferrable = True


def leave_loads(tx: Tx) -> None:
    set_json_loads(lambda text: "theirs", tx)


@pytest.mark.parametrize(
    "leave",
    [leave_row_factory, leave_cursor_factory, leave_threshold, leave_isolation, leave_loads],
    ids=lambda leave: leave.__name__,
)
def test_what_is_left_on_the_object(tx: Tx, leave: Callable[[Tx], None]) -> None:
    def shown() -> list[object]:
        return [
            *(tx.row_factory, tx.cursor_factory, tx.server_cursor_factory, tx.prepare_threshold),
            *(tx.isolation_level, tx.read_only, tx.deferrable),
            one(tx, "select '[1]'::jsonb"),
        ]

    before = shown()
    tx.lend()
    leave(tx)
    tx.take_back(one_statement=True)
    tx.end(b"COMMIT")
    tx.restore()
    assert shown() == before


def test_notices_go_to_nobody_of_before(tx: Tx) -> None:
    heard: list[object] = []
    tx.lend()
    tx.add_notice_handler(heard.append)
    tx.execute("do $$ begin raise notice 'one'; end $$")
    tx.take_back(one_statement=True)
    tx.end(b"COMMIT")
    tx.restore()
    tx.execute("do $$ begin raise notice 'two'; end $$")
    assert len(heard) == 1


def test_a_block_that_was_entered_and_never_left(tx: Tx) -> None:
    tx.lend()
    tx.execute("select 1")
    psycopg.Transaction(tx).__enter__()
    tx.take_back(one_statement=True)
    tx.end(b"COMMIT")
    tx.restore()
    with tx.transaction():
        tx.execute("select 1")
    assert not tx.open
