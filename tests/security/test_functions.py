"""The functions of the schema: with their caller's rights, but for one that cannot be led astray."""

import re

import psycopg
import pytest
from psycopg import sql

from tests import logins
from tests.db.stage import add, one
from tests.servers import Connection

pytestmark = pytest.mark.db

DEFINERS = {"withdraw"}


def test_who_runs_with_whose_rights(db: Connection) -> None:
    functions = db.execute(
        """select proname, prosecdef, coalesce(array_to_string(proconfig, ' '), ''),
                  has_function_privilege('public', oid, 'execute')
           from pg_proc where pronamespace = 'runner'::regnamespace"""
    ).fetchall()
    assert len(functions) > 6
    assert {name for name, definer, _, _ in functions if definer} == DEFINERS
    for name, definer, settings, public in functions:
        if definer:
            assert re.search(r"search_path=.*\bpg_temp$", settings), name
            assert not public, name


def test_the_owners_rights_are_not_lent(fresh: str) -> None:
    """A caller's own schema, operators, temporary tables and search_path change nothing of what
    withdraw does."""
    with psycopg.connect(fresh, autocommit=True) as owner:
        (task,) = add(owner, idempotency_key="k")
        owner.execute(
            sql.SQL(
                "create schema trap; grant all on schema trap to {0}; grant create, temp on"
                " database {1} to {0}"
            ).format(sql.Identifier(logins.login_of("enqueue")), sql.Identifier(owner.info.dbname))
        )
        with psycopg.connect(logins.login_url(fresh, "enqueue"), autocommit=True) as caller:
            caller.execute(
                """create function trap.always(bigint, bigint) returns boolean language plpgsql as
                       $$ begin raise exception 'as %', current_user; end $$;
                   create operator trap.= (leftarg = bigint, rightarg = bigint,
                                           function = trap.always);
                   create function trap.count() returns bigint language sql as 'select 7';
                   create temp table receipt (idempotency_key text, task_id bigint);
                   insert into receipt values ('k', 1);
                   set search_path = pg_temp, trap, pg_catalog, runner"""
            )
            assert one(caller, "select runner.withdraw(%s::bigint[])", [task]) == 0
        assert one(owner, "select count(*) from runner.task") == 1


def test_values_are_never_read_as_sql(db: Connection) -> None:
    """Through the SQL function, with what ends a string, a statement, a parameter or a comment."""
    evil = "'); drop table runner.task; -- $1 %s {} \\"
    task = one(
        db,
        """select runner.enqueue(task_type => %(x)s, params => to_jsonb(%(x)s::text), queue => %(x)s,
                                 idempotency_key => %(x)s, unique_params => true)""".replace(
            "%(x)s", "%s"
        ),
        *[evil] * 4,
    )
    row = db.execute("select task_type, queue, params, idempotency_key from runner.task").fetchall()
    assert (task is not None, row) == (True, [(evil, evil, evil, evil)])
