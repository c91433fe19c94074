"""The SQL side: the function from triggers and statements, the plain INSERT, times, privileges."""

import inspect
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql

import runner
from tests.servers import Connection

pytestmark = pytest.mark.db

ORDERS = "create table orders (id int primary key, item text)"
COUNT = "select count(*) from runner.task"


def rows(db: Connection) -> list[tuple[Any, ...]]:
    return db.execute("select task_type, params from runner.task order by task_id").fetchall()


def test_a_plain_insert_beside_the_business_row(db: Connection) -> None:
    """One statement, two rows, exactly one task."""
    db.execute(ORDERS)
    db.execute(
        """with placed as (insert into orders values (1, 'book') returning id)
           insert into runner.task (task_type, params)
           select 'ship', jsonb_build_object('order', id) from placed"""
    )
    assert rows(db) == [("ship", {"order": 1})]
    db.execute(
        """with job as (insert into runner.task (task_type, params) values ('bill', '{"order": 2}'))
           insert into orders values (2, 'pen')"""
    )
    assert rows(db)[1:] == [("bill", {"order": 2})]
    state = db.execute("select distinct state, queue, priority, attempt, fence from runner.task")
    assert state.fetchall() == [("ready", "default", 5, 0, 0)]


def test_the_function_in_returning_and_in_an_outer_select(db: Connection) -> None:
    db.execute(ORDERS)
    row = db.execute(
        """insert into orders values (1, 'book')
           returning runner.enqueue('ship', jsonb_build_object('order', id))"""
    ).fetchone()
    assert row is not None
    db.execute(
        """with placed as (insert into orders values (2, 'pen') returning id)
           select runner.enqueue('ship', jsonb_build_object('order', id), unique_params => true)
           from placed"""
    )
    assert rows(db) == [("ship", {"order": 1}), ("ship", {"order": 2})]
    with pytest.raises(psycopg.errors.UniqueViolation):  # of the business row: no task either
        db.execute("insert into orders values (2, 'pen') returning runner.enqueue('ship')")
    assert len(rows(db)) == 2


def test_the_function_in_a_trigger(db: Connection) -> None:
    db.execute(ORDERS)
    db.execute(
        """create function ship() returns trigger language plpgsql as $$ begin
               perform runner.enqueue(task_type => 'ship', params => to_jsonb(new),
                                      idempotency_key => 'order ' || new.id);
               return new; end $$;
           create trigger ship after insert or update on orders for each row execute function ship();
        """
    )
    db.execute("insert into orders values (1, 'book'), (2, 'pen')")
    db.execute("update orders set item = 'ink'")
    assert rows(db) == [
        ("ship", {"id": 1, "item": "book"}),
        ("ship", {"id": 2, "item": "pen"}),
    ]


def test_defaults_and_nulls(db: Connection) -> None:
    db.execute("select runner.enqueue('a')")
    db.execute("select runner.enqueue('b', null, null, null, null, null, null, null)")
    db.execute("select runner.enqueue('c', 'null', unique_params => true)")
    assert rows(db) == [("a", {}), ("b", {}), ("c", None)]
    with pytest.raises(psycopg.errors.NotNullViolation):
        db.execute("select runner.enqueue(null)")
    with pytest.raises(psycopg.errors.CheckViolation):
        db.execute("select runner.enqueue('a', priority => 10)")


def test_params_left_out_and_null(db: Connection) -> None:
    """None is an argument left out, as NULL is in SQL; where there are params alone it is the null."""
    runner.enqueue(db, "a")
    runner.enqueue(db, "b", None)
    runner.enqueue(db, "c", params=None)
    runner.enqueue_many(db, [("d", None), {"type": "e", "params": None}])
    runner.enqueue_many(db, [None], type="f")
    assert rows(db) == [("a", {}), ("b", {}), ("c", {}), ("d", {}), ("e", {}), ("f", None)]
    for one in (runner.enqueue, runner.aenqueue, runner.enqueue_sql, runner.Client.enqueue):
        assert inspect.signature(one).parameters["params"].default is None


def test_an_instance_may_come_with_params_of_none(db: Connection) -> None:
    """What wraps `enqueue` hands its own default on."""
    tasks = runner.Registry()

    @tasks.task
    @dataclass
    class Welcome:
        to: str

        def process(self, tx: object, task: object) -> None: ...

    runner.enqueue(db, Welcome("a"), None)
    assert rows(db) == [("Welcome", {"to": "a"})]
    with pytest.raises(runner.InvalidTask, match="given twice"):
        runner.enqueue(db, Welcome("a"), {})


def test_what_an_enqueuer_needs(db: Connection, db_url: str) -> None:
    """A role that may add tasks, and neither read their params nor delete one."""
    db.execute("drop role if exists runner_test_producer")
    db.execute("create role runner_test_producer login")
    role = sql.SQL("runner_test_producer")
    try:
        for grant in GRANTS:
            db.execute(sql.SQL(grant + " to {}").format(role))
        with psycopg.connect(db_url, user="runner_test_producer", autocommit=True) as conn:
            assert runner.enqueue(conn, "hello") is not None
            assert runner.enqueue(conn, "hello", key="k", unique=True) is not None
            assert runner.enqueue(conn, "hello", key="k") is None
            assert runner.enqueue_many(conn, [{}, {}], type="hello") == 2
            items = [{"type": "hello", "key": "l"}, {"type": "hello", "unique": True}]
            assert runner.enqueue_many(conn, items) == 1
            for refused in ("select params from runner.task", "delete from runner.task"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    conn.execute(refused)
    finally:
        db.execute("drop owned by runner_test_producer; drop role runner_test_producer")


_COLUMNS = "queue, task_type, params, priority, run_at, max_attempts, idempotency_key, unique_key"
GRANTS = [
    "grant usage on schema runner",
    f"grant insert ({_COLUMNS}) on runner.task",
    "grant select (task_id, queue, task_type, idempotency_key, unique_key, fence, state)"
    " on runner.task",
    "grant select (idempotency_key) on runner.receipt",
    "grant select (idle) on runner.runner",
    "grant execute on function runner.withdraw(bigint[])",
]


def test_withdraw_takes_only_what_is_pointless(db: Connection) -> None:
    first, second = runner.enqueue(db, "a", key="k"), runner.enqueue(db, "b", key="l")
    db.execute("insert into runner.receipt values ('k', 1, 'a')")
    assert db.execute("select runner.withdraw(%s)", [[first, second]]).fetchone() == (1,)
    assert rows(db) == [("b", {})]


STYLES = {"format": ("%s", list), "pyformat": ("%(", dict), "numeric_dollar": ("$1", list)}


@pytest.mark.parametrize("style", STYLES)
def test_enqueue_sql(db: Connection, style: str) -> None:
    text, params = runner.enqueue_sql("hello", {"a": "%s :x $1 ?"}, key="k", style=style)
    mark, kind = STYLES[style]
    assert mark in text
    assert isinstance(params, kind)
    factory = psycopg.RawCursor if style == "numeric_dollar" else psycopg.Cursor
    factory(db).execute(text, params)
    assert rows(db) == [("hello", {"a": "%s :x $1 ?"})]


def test_enqueue_sql_for_others() -> None:
    assert ":type as text" in runner.enqueue_sql("hello", style="named")[0]
    text, params = runner.enqueue_sql("hello", style="qmark")
    assert text.count("?") == len(params) == 9
    assert ":9 as integer" in runner.enqueue_sql("hello", style="numeric")[0]
    with pytest.raises(ValueError, match="style: one of pyformat"):
        runner.enqueue_sql("hello", style="odd")
