"""`doctor`: each thing is broken for real, and told; a healthy database is told so."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from chaos import pooler
from runner.embedded import Embedded
from runner.operating.diagnosis import Finding
from runner.store import schema
from runner.store.connect import connected
from runner.store.doctor import Plan, examine, shape, shipped_shape
from tests import logins, pooling
from tests.commands import error_of, run
from tests.db.stage import add, announce
from tests.servers import (
    Connection,
    chosen_binaries,
    create_database,
    major_version,
    reachable_directory,
    report_statistics,
)

pytestmark = pytest.mark.db

PLAN = Plan(procs=2, helpers=5)
CHECKS = {
    *("server", "writable", "durability", "clock", "pooler", "connections", "privileges", "schema"),
    *("storage", "vacuum", "snapshots", "tasks", "leases", "ids", "work", "pauses", "dead"),
}


def expected(check: str) -> str:
    """What a check says of a healthy database on the server of this run."""
    return "warn" if check == "server" and major_version() < 15 else "ok"


def findings(conn: Connection, plan: Plan = PLAN) -> dict[str, Finding]:
    return {one.check: one for one in examine(conn, plan)}


def told(conn: Connection, check: str, plan: Plan = PLAN) -> tuple[str, str]:
    """Result and sentence of one check; whatever is not well has advice."""
    found = findings(conn, plan)[check]
    assert (found.advice is None) == (found.result == "ok"), found
    return found.result, found.found


@pytest.fixture
def own(fresh: str) -> Iterator[Connection]:
    with psycopg.connect(fresh, autocommit=True) as conn:
        yield conn


def test_a_healthy_database(own: Connection) -> None:
    found = findings(own)
    assert set(found) == CHECKS
    assert {name: one.result for name, one in found.items()} == {
        name: expected(name) for name in found
    }


def test_the_shipped_shape_is_that_of_schema_sql(own: Connection) -> None:
    """When this fails after a change of schema.sql: python -m tests.shape"""
    assert shape(own) == shipped_shape()


# -- the schema and its tables --------------------------------------------------------------------

DRIFT = {
    "drop index runner.task_ready": ("fail", "missing: index task_ready"),
    "alter table runner.task drop constraint attempts_bounded": ("fail", "attempts_bounded"),
    "alter table runner.task drop column solo": ("fail", "missing: column task.solo"),
    "alter table runner.task alter queue drop not null": ("fail", "changed: column task.queue"),
    "alter table runner.task alter shuffle drop default": ("fail", "changed: column task.shuffle"),
    "alter table runner.task alter task_id drop identity": ("fail", "changed: column task.task_id"),
    "alter table runner.runner alter pid type bigint": ("fail", "changed: column runner.pid"),
    "alter table runner.task disable trigger task_wake": (
        "fail",
        "changed: trigger task.task_wake",
    ),
    "drop trigger task_schedule on runner.task": ("fail", "missing: trigger task.task_schedule"),
    "create or replace function runner.shuffle() returns float8 language sql as 'select 1.0::float8'": (
        "fail",
        "changed: function runner.shuffle()",
    ),
    "alter function runner.enqueue_once security definer": ("fail", "runner.enqueue_once"),
    "update pg_index set indisvalid = false where indexrelid = 'runner.task_key'::regclass": (
        "fail",
        "changed: index task_key",
    ),
    "create index mine on runner.task (created_at)": ("warn", "not ours: index mine"),
    "alter table runner.task add column tenant int": ("warn", "not ours: column task.tenant"),
}


@pytest.mark.parametrize(
    "setting",
    [
        "search_path = runner, public",
        "search_path = ''",
        "standard_conforming_strings = off",
        "quote_all_identifiers = on",
    ],
)
def test_the_shape_is_the_same_whatever_is_set(setting: str, own: Connection) -> None:
    """A login called runner has our schema in its search path."""
    own.execute(f"set {setting}")
    assert shape(own) == shipped_shape()


@pytest.mark.parametrize("statement", DRIFT)
def test_drift(statement: str, own: Connection) -> None:
    own.execute(statement)
    result, text = told(own, "schema")
    expected, words = DRIFT[statement]
    assert (result, words in text) == (expected, True), text


def test_what_its_advice_says_puts_it_back(own: Connection) -> None:
    own.execute("drop index runner.task_ready; drop trigger task_wake on runner.task")
    assert told(own, "schema")[0] == "fail"
    schema.install(own)
    assert told(own, "schema")[0] == "ok"


def test_what_must_be_changed_by_hand_is_called_so(own: Connection) -> None:
    """schema.sql makes what is missing, replaces functions and triggers, and alters no column."""
    own.execute("alter table runner.task alter priority set default 3")
    own.execute("alter function runner.enqueue_once security definer")
    own.execute("alter table runner.task disable trigger task_wake")
    (found,) = (one for one in examine(own, Plan(4, 3)) if one.check == "schema")
    assert found.advice is not None
    assert found.advice.endswith("; change column task.priority to what it says there by hand")
    schema.install(own)
    assert told(own, "schema")[1] == "changed: column task.priority"


def test_unlogged(own: Connection) -> None:
    own.execute("alter table runner.task set unlogged")
    assert told(own, "storage") == ("fail", "task unlogged: a crash of the server empties it")


def test_published(own: Connection) -> None:
    own.execute("create publication everything for all tables")
    result, text = told(own, "storage")
    assert (result, "removed published without a replica identity" in text) == ("fail", True)
    own.execute("drop publication everything; create publication one for table runner.receipt")
    assert told(own, "storage")[0] == "warn"


def test_autovacuum_off_for_a_table(own: Connection) -> None:
    own.execute("alter table runner.task set (autovacuum_enabled = false)")
    assert told(own, "vacuum") == ("fail", "autovacuum is off for task")


def test_dead_rows(own: Connection) -> None:
    own.execute("alter table runner.task set (autovacuum_enabled = false)")
    add(own, count=60_000)
    own.execute("delete from runner.task")
    own.execute("alter table runner.task reset (autovacuum_enabled)")
    report_statistics(own)
    result, text = told(own, "vacuum")
    assert result == "warn"
    assert re.match(r"60000 dead rows in task beside 0 live ones, (never|last) vacuumed", text)


# -- sessions, connections, rights ----------------------------------------------------------------


def test_an_old_snapshot(own: Connection, fresh: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.operating.diagnosis.tables.OLD_SNAPSHOT_SECONDS", 0.05)
    with psycopg.connect(fresh, application_name="a dump") as other:
        other.execute("set transaction isolation level repeatable read")
        other.execute("select pg_sleep(0.1)")
        result, text = told(own, "snapshots")
    assert result == "warn"
    assert re.match(r"session \d+ postgres a dump idle in transaction holds a snapshot for ", text)
    assert told(own, "snapshots")[0] == "ok"


def test_sessions_that_may_not_be_seen(own: Connection, fresh: str) -> None:
    with psycopg.connect(logins.login_url(fresh, "read"), autocommit=True) as conn:
        found = findings(conn)
    assert (found["visibility"].result, found["snapshots"].result) == ("warn", "ok")


def test_the_budget_of_connections(own: Connection) -> None:
    most = int(own.info.parameter_status("max_connections") or 0) or 100
    result, text = told(own, "connections", Plan(procs=most, helpers=5))
    assert result == "warn"
    assert f"{most} workers more need {most + 5} ({most} + 5)" in text
    own.execute(
        sql.SQL("alter database {} connection limit 6").format(sql.Identifier(own.info.dbname))
    )
    result, text = told(own, "connections")
    assert result == "warn"
    assert "the database's limit 6" in text


def test_fleets_that_want_more_than_there_is(own: Connection) -> None:
    runner = announce(own)
    own.execute(
        """insert into runner.runner (runner_id, host, pid, procs, lease)
           select runner_id, host, 1, 400, lease from runner.worker where worker_id = %s""",
        [runner],
    )
    result, text = told(own, "connections")
    assert (result, "want up to 405" in text) == ("fail", True)


@pytest.mark.parametrize(
    ("name", "result", "words"),
    [
        ("read", "ok", "runner_test_read may look"),
        ("worker", "ok", "may add, look, work"),
        ("admin", "ok", "may act, add, look"),
    ],
)
def test_rights(name: str, result: str, words: str, own: Connection, fresh: str) -> None:
    with psycopg.connect(logins.login_url(fresh, name), autocommit=True) as conn:
        found = findings(conn)["privileges"]
        assert (found.result, found.found.endswith(words.split(" ", 1)[1])) == (result, True), found
        assert findings(conn)["schema"].result == "ok"  # everybody may compare it


def test_rights_that_are_missing_are_named(own: Connection, fresh: str) -> None:
    own.execute("revoke insert on runner.receipt from runner_worker")
    with psycopg.connect(logins.login_url(fresh, "worker"), autocommit=True) as conn:
        assert told(conn, "privileges") == (
            "fail",
            "runner_test_worker may work only in part: insert on runner.receipt",
        )
    with psycopg.connect(logins.login_url(fresh, "enqueue"), autocommit=True) as conn:
        result, text = told(conn, "privileges")
        assert (result, "may not look: select on runner.task" in text) == ("fail", True)
        assert told(conn, "queue") == ("warn", "not looked at: permission denied for table task")


def test_read_only_and_lax_by_default(own: Connection) -> None:
    name = sql.Identifier(own.info.dbname)
    own.execute(sql.SQL("alter database {} set default_transaction_read_only = on").format(name))
    own.execute(sql.SQL("alter database {} set synchronous_commit = off").format(name))
    assert told(own, "writable")[0] == "fail"
    result, text = told(own, "durability")
    assert (result, "synchronous_commit=off" in text) == ("warn", True)


def test_a_clock_that_is_wrong(own: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    true = time.time
    monkeypatch.setattr("runner.store.doctor.time.time", lambda: true() - 100)
    result, text = told(own, "clock")
    assert result == "warn"
    assert re.match(r"the database's clock is (99|100)\.\d s ahead of this host's", text)


def test_a_server_that_may_forget() -> None:
    """Settings that only a server's own configuration makes."""
    with reachable_directory() as home:
        with (
            Embedded.open(home, binaries=chosen_binaries()) as server,
            psycopg.connect(server.url, autocommit=True) as conn,
        ):
            for setting in ("fsync = off", "autovacuum = off", "max_prepared_transactions = 3"):
                conn.execute(f"alter system set {setting}")
            conn.execute("alter system set wal_level = logical")
        with Embedded.open(home, binaries=chosen_binaries()) as server:
            url = create_database(server, "ill")
            with psycopg.connect(url, autocommit=True) as conn:
                schema.install(conn)
                assert told(conn, "durability")[0] == "fail"
                assert told(conn, "vacuum") == (
                    "fail",
                    "autovacuum is off: tables and indexes grow for ever",
                )
                _holders(conn)


def _holders(conn: Connection) -> None:
    """Snapshots without a session: a slot that nobody reads, a transaction that nobody ends."""
    conn.execute("select pg_create_logical_replication_slot('left', 'pgoutput')")
    result, text = told(conn, "snapshots")
    assert (result, text) == ("fail", "replication slot left holds a snapshot left behind")
    conn.execute("select pg_drop_replication_slot('left')")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runner.operating.diagnosis.tables.OLD_SNAPSHOT_SECONDS", 0.0)
        conn.execute(
            "begin; insert into runner.pause (queue) values ('q'); prepare transaction 'p'"
        )
        result, text = told(conn, "snapshots")
        assert (result, text.startswith("prepared transaction p holds")) == ("warn", True)
        conn.execute("rollback prepared 'p'")


@pooling.needed
def test_a_pooler(own: Connection, fresh: str) -> None:
    with (
        pooler.pooler(fresh, size=3) as between,
        connected(between.url(fresh), "doctor", 5.0) as conn,
    ):
        assert told(conn, "pooler") == ("warn", "connected through a pooler in transaction mode")
        assert findings(conn)["tasks"].result == "ok"
    with connected(fresh, "doctor", 5.0) as conn:
        assert told(conn, "pooler") == ("ok", "connected directly")


# -- the queue ------------------------------------------------------------------------------------

BROKEN = {
    "update runner.task set attempt = 9, max_attempts = 5": "more attempts than allowed",
    "update runner.task set attempt = 5, max_attempts = 5": "waiting with no attempt left",
    "update runner.task set state = 'running'": "running without an owner, or owned without running",
    "update runner.task set lease_owner = gen_random_uuid()": "running without an owner, or owned",
    """update runner.task set state = 'running', lease_owner = gen_random_uuid(),
           claimed_at = now() - interval '1 hour', fence = 1""": "its worker is not there",
    "update runner.task set fence = 9000000000000000": "the clock was set back",
}


@pytest.mark.parametrize("statement", BROKEN)
def test_rows_that_no_correct_run_leaves(statement: str, own: Connection) -> None:
    for name in ("running_has_owner", "attempts_bounded", "attempts_left"):
        own.execute(
            sql.SQL("alter table runner.task drop constraint {}").format(sql.Identifier(name))
        )
    (task,) = add(own)
    own.execute(statement)
    result, text = told(own, "tasks")
    assert result == "fail"
    assert BROKEN[statement] in text
    assert f"(task {task})" in text


def test_leases_that_nobody_sweeps(own: Connection) -> None:
    announce(own, "t", lease=30.0)
    own.execute("update runner.worker set lease_until = now() - interval '50 seconds'")
    assert told(own, "leases")[0] == "ok"  # a sweep may still be observing it
    own.execute("update runner.worker set lease_until = now() - interval '70 seconds'")
    assert told(own, "leases") == ("fail", "1 lease ended, and nobody sweeps: their tasks wait")
    own.execute("update runner.worker set lease_until = now() + interval '1 hour'")
    assert told(own, "leases")[0] == "warn"


def test_parents_that_nobody_forgets(own: Connection) -> None:
    own.execute(
        """insert into runner.runner (runner_id, host, pid, lease, started_at)
           values (gen_random_uuid(), 'h', 1, '30s', now() - interval '1 hour')"""
    )
    assert told(own, "leases")[0] == "warn"


def test_a_sequence_that_lags(own: Connection) -> None:
    own.execute(
        "insert into runner.task (task_id, task_type) overriding system value values (50, 't')"
    )
    result, text = told(own, "ids")
    assert (result, text) == ("fail", "the next id is below task 50: adding tasks will fail")
    own.execute((findings(own)["ids"].advice or "").removeprefix("run: "))
    assert told(own, "ids")[0] == "ok"


def test_work_that_nobody_does(own: Connection) -> None:
    add(own, "mail")
    assert told(own, "work") == ("warn", "1 task ready, and no worker lives")
    announce(own, "other")
    assert told(own, "work") == ("warn", "not implemented by any worker: mail")
    announce(own, "mail")
    assert told(own, "work")[0] == "ok"
    (late,) = add(own, "mail", run_at="2999-01-01")
    own.execute("update runner.task set run_at = '2020-01-01' where task_id = %s", [late])
    assert told(own, "work") == ("warn", "1 task due for a minute and more, and nobody promotes")


def test_the_dead_the_done_and_the_paused(own: Connection) -> None:
    announce(own, "t")
    add(own, state="dead", count=2)
    assert told(own, "dead") == ("warn", "2 tasks dead")
    add(own, idempotency_key="k")
    own.execute("insert into runner.receipt values ('k', 1, 't', now() - interval '1 hour')")
    assert told(own, "work")[1] == "1 task under keys that are done: they will do nothing"
    own.execute("delete from runner.task")
    own.execute("insert into runner.pause (queue, at) values ('q', now() - interval '2 days')")
    assert told(own, "pauses")[1] == "queue q is paused, without an end for more than a day"


def test_what_is_paused_while_it_waits(own: Connection) -> None:
    announce(own, "mail")
    own.execute("insert into runner.pause (queue, task_type) values ('night', 'mail')")
    assert told(own, "pauses") == ("ok", "1 pause, nothing waits")
    add(own, "mail", queue="night", count=2)
    add(own, "mail")
    assert told(own, "work")[0] == "ok"
    said = "type mail in queue night is paused: 2 ready tasks kept back"
    assert told(own, "pauses") == ("warn", said)
    command = "when that is over: runner resume night --type mail"
    assert findings(own)["pauses"].advice == command
    own.execute("insert into runner.pause (queue) values ('empty')")
    assert told(own, "pauses") == ("warn", f"{said} (and 1 pause more)")


def test_a_queue_that_no_worker_serves(own: Connection) -> None:
    announce(own, "mail")
    own.execute("update runner.worker set queues = '{night}'")
    add(own, "mail")
    assert told(own, "work") == ("warn", "served by no worker: queue default")
    add(own, "mail", queue="night")
    own.execute("delete from runner.task where queue = 'default'")
    assert told(own, "work")[0] == "ok"


# -- the command ----------------------------------------------------------------------------------


@pytest.mark.process
def test_the_command(own: Connection, fresh: str, tmp_path: Path) -> None:
    well = run("doctor", "--procs", "2", url=fresh, cwd=tmp_path)
    assert (well.returncode, well.stderr) == (0, "")
    header, *lines = well.stdout.splitlines()
    assert header == "result\tcheck\tfound\tadvice"
    said = {check: result for result, check, *_ in (line.split("\t") for line in lines)}
    assert said == {check: expected(check) for check in CHECKS}
    own.execute("drop index runner.task_ready")
    ill = run("doctor", "--json", url=fresh, cwd=tmp_path)
    assert ill.returncode == 1
    found = [json.loads(line) for line in ill.stdout.splitlines()]
    assert all(set(one) == {"check", "result", "found", "advice"} for one in found)
    assert [one["check"] for one in found if one["result"] == "fail"] == ["schema"]


@pytest.mark.process
def test_without_a_schema_there_is_nothing_to_look_at(server: Embedded, tmp_path: Path) -> None:
    url = create_database(server, "runner_doctor_bare")
    result = run("doctor", url=url, cwd=tmp_path)
    assert error_of(result) == "the database runner_doctor_bare has no runner schema"
    assert result.returncode == 78
