"""Upgrading: in order, whole or not at all, by one at a time, and to what schema.sql makes afresh."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from runner.embedded import Embedded
from runner.errors import SchemaMismatch
from runner.store import migrations, schema
from runner.store.connect import connect
from runner.store.migrations import Migration
from tests import servers
from tests.db.stage import Background, Claimer, add, one
from tests.servers import wait_until

pytestmark = pytest.mark.db

NOW = schema.VERSION
NEXT = Migration(NOW + 1, "next_notes", "create table runner.note (text text);\nselect 100 % 7;")
AFTER = Migration(NOW + 2, "after_colour", "alter table runner.note add colour text default 'red';")
BROKEN = Migration(NOW + 2, "after_broken", "create table runner.half (); select 1 / 0;")

OLDEST = Path(__file__).parents[1] / "data" / "schema_1.sql"
SHAPE = """
    select string_agg(what, e'\\n' order by what) from (
        select format('%s %s %s %s %s', c.oid::regclass, c.relkind, a.attname,
                      format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid)) as what
        from pg_class c left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
        left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relnamespace = 'runner'::regnamespace and not coalesce(a.attisdropped, false)
        union all select pg_get_functiondef(oid) from pg_proc
        where pronamespace = 'runner'::regnamespace
        union all select format('%s %s', conrelid::regclass, pg_get_constraintdef(oid))
        from pg_constraint where connamespace = 'runner'::regnamespace
        union all select indexdef from pg_indexes where schemaname = 'runner'
        union all select definition from pg_views where schemaname = 'runner'
        union all select format('%s %s', tgrelid::regclass, pg_get_triggerdef(oid)) from pg_trigger
        where not tgisinternal
        union all select version::text from runner.meta) all_of_it"""


@pytest.fixture
def bare(server: Embedded) -> Iterator[str]:
    """The URL of a database without our schema."""
    with servers.fresh_database(server) as url:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("drop schema runner cascade")
        yield url


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> list[Migration]:
    """A program two versions on, and its steps."""
    monkeypatch.setattr(schema, "VERSION", NOW + 2)
    return [NEXT, AFTER]


def test_there_is_a_step_to_every_version() -> None:
    assert [one.version for one in migrations.migrations()] == list(range(2, schema.VERSION + 1))
    for step in migrations.migrations():
        words = step.text.lower().split()
        assert not {"begin;", "commit;", "rollback;", "concurrently"} & set(words)


def test_schema_sql_says_its_version(bare: str) -> None:
    with connect(bare, "test") as conn:
        schema.install(conn)
        assert schema.version(conn) == schema.VERSION


def test_migrations_end_where_schema_sql_does(fresh: str, bare: str) -> None:
    """From the oldest schema, step by step."""
    with connect(bare, "test") as old, connect(fresh, "test") as new:
        old.execute(OLDEST.read_text("utf-8"))  # type: ignore[call-overload]
        assert schema.version(old) == 1
        migrations.migrate(old)
        assert one(old, SHAPE) == one(new, SHAPE)
        assert len(one(new, SHAPE)) > 5000


def test_tasks_that_wait_keep_their_places_and_new_ones_lie_in_cells(bare: str) -> None:
    """From version 4, which knew no cells; everything is claimed afterwards."""
    cells = "select count(distinct floor(shuffle * 128)) from runner.task where task_type = %s"
    places = "select array_agg(shuffle order by task_id) from runner.task where task_type = 'old'"
    with connect(bare, "test") as conn:
        conn.execute(OLDEST.read_text("utf-8"))  # type: ignore[call-overload]
        migrations.migrate(conn, [step for step in migrations.migrations() if step.version <= 4])
        tasks = add(conn, "old", 200)
        before = one(conn, places)
        assert next(step.version for step in migrations.migrate(conn)) == 5
        tasks += add(conn, "new", 200)
        assert one(conn, places) == before
        assert one(conn, cells, "new") < 50 < one(conn, cells, "old")
        claimer = Claimer(conn, "old", "new").look_around()
        found = [row.task_id for _ in range(2) for row in claimer.claim(wanted=200)]
        assert sorted(found) == sorted(tasks)


def test_steps_are_taken_in_order_and_once(fresh: str, later: list[Migration]) -> None:
    with connect(fresh, "test") as conn:
        (task,) = add(conn)
        with pytest.raises(SchemaMismatch, match=f"version {NOW}, this program needs {NOW + 2}"):
            schema.check(conn)
        assert migrations.pending(conn, later) == later
        assert migrations.migrate(conn, later) == later
        schema.check(conn)
        assert one(conn, "select count(colour) from runner.note") == 0
        assert migrations.migrate(conn, later) == []
        assert one(conn, "select task_id from runner.task") == task
        assert one(conn, "show statement_timeout") != "0"


def test_a_step_that_fails_leaves_the_version_before(fresh: str, later: list[Migration]) -> None:
    with connect(fresh, "test") as conn:
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrations.migrate(conn, [NEXT, BROKEN])
        assert schema.version(conn) == NOW + 1
        assert one(conn, "select to_regclass('runner.half')") is None
        assert migrations.migrate(conn, later) == [AFTER]


def test_of_two_at_once_the_second_finds_nothing_to_do(fresh: str, later: list[Migration]) -> None:
    with connect(fresh, "test") as first, connect(fresh, "test") as second:
        with first.transaction():
            assert migrations.migrate(first, later) == later
            call = Background(lambda: migrations.migrate(second, later))
            pid = second.info.backend_pid
            wait_until(lambda: _waits(first, pid), why="waits for the version row")
            assert not call.done
        assert call.result() == []


def _waits(conn: psycopg.Connection, pid: int) -> bool:
    return bool(
        one(conn, "select exists (select from pg_locks where pid = %s and not granted)", pid)
    )


def test_a_gap_is_refused(fresh: str, later: list[Migration]) -> None:
    with connect(fresh, "test") as conn:
        with pytest.raises(
            SchemaMismatch, match=f"after_colour does not fit a schema of version {NOW}"
        ):
            migrations.migrate(conn, [AFTER])
        assert schema.version(conn) == NOW


def test_no_schema_and_a_newer_one_are_refused(fresh: str, bare: str) -> None:
    with connect(bare, "test") as conn, pytest.raises(SchemaMismatch, match="no runner schema"):
        migrations.migrate(conn)
    with connect(fresh, "test") as conn:
        conn.execute("update runner.meta set version = 99")
        with pytest.raises(SchemaMismatch, match="newer than this program"):
            migrations.migrate(conn)
        with pytest.raises(
            psycopg.errors.RaiseException, match=f"in version 99, this is version {NOW}"
        ):
            schema.install(conn)


def test_the_script_does_the_same_and_refuses_to_do_it_twice(
    fresh: str, later: list[Migration]
) -> None:
    script = migrations.script(later)
    with connect(fresh, "test") as conn:
        conn.execute(script)  # type: ignore[call-overload]
        schema.check(conn)
    psql = shutil.which("psql")
    if psql is None:
        pytest.skip("no psql here")
    again = subprocess.run(
        [psql, "-v", "ON_ERROR_STOP=1", fresh], input=script, capture_output=True, text=True
    )
    assert again.returncode == 3
    assert f"from version {NOW} to {NOW + 1} only" in again.stderr


# -- a kill half-way ------------------------------------------------------------------------------

STOP_AT_VIEW = """
    create function public.stand_still() returns event_trigger language plpgsql as
        $$ begin perform pg_advisory_lock(4711); end $$;
    create event trigger stand_still on ddl_command_start when tag in ('CREATE VIEW')
        execute function public.stand_still()"""
INSTALL = """
import sys
from runner.store import schema
from runner.store.connect import connect
schema.install(connect(sys.argv[1], "init", statement_seconds=60))
"""


@pytest.mark.process
def test_an_installer_killed_half_way_leaves_nothing(bare: str) -> None:
    """It is stopped in the middle by an event trigger, killed, and its session ends with it."""
    with psycopg.connect(bare, autocommit=True) as conn:
        conn.execute(STOP_AT_VIEW)
        conn.execute("select pg_advisory_lock(4711)")
        installer = subprocess.Popen([sys.executable, "-c", INSTALL, bare])
        sessions = "select count(*) from pg_stat_activity where application_name = 'runner init'"
        stands = "select count(*) from pg_locks where locktype = 'advisory' and objid = 4711"
        wait_until(lambda: one(conn, stands + " and not granted"), why="stands half-way")
        os.kill(installer.pid, signal.SIGKILL)
        installer.wait()
        wait_until(lambda: not one(conn, sessions), why="its session is gone")
        conn.execute("select pg_advisory_unlock(4711)")
        assert one(conn, "select count(*) from pg_namespace where nspname = 'runner'") == 0
        conn.execute("drop event trigger stand_still")
    with connect(bare, "init") as conn:
        schema.install(conn)
        schema.check(conn)


def test_many_installers_at_once(bare: str) -> None:
    def install() -> None:
        with connect(bare, "init") as conn:
            schema.install(conn)

    for call in [Background(install) for _ in range(6)]:
        call.result()
    with connect(bare, "init") as conn:
        schema.check(conn)
