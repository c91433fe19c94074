"""deploy/roles.sql: four roles with least rights, by a matrix of roles and statements, and by use."""

import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg import errors, sql

from tests import logins
from tests.commands import APP, error_of, run
from tests.db.stage import add, one
from tests.servers import Connection

pytestmark = pytest.mark.db

ENQUEUE, WORKER, READ, ADMIN = logins.NAMES
EVERYBODY = set(logins.NAMES)
ADDERS = {ENQUEUE, WORKER, ADMIN}
LOOKERS = {READ, ADMIN}
ID = "'00000000-0000-0000-0000-000000000000'"

# Statement, and who may; everybody else is refused for want of a privilege.
MATRIX: list[tuple[str, set[str]]] = [
    ("select version from runner.meta", EVERYBODY),
    ("update runner.meta set version = 99", set()),
    ("create table runner.extra (n int)", set()),
    ("alter table runner.task add column extra int", set()),
    ("drop table runner.task", set()),
    ("truncate runner.task", set()),
    (
        "create or replace function runner.shuffle() returns float8 language sql as 'select 1'",
        set(),
    ),
    ("alter table runner.task disable trigger all", set()),
    # tasks
    ("insert into runner.task (task_type, params) values ('t', '{}')", ADDERS),
    ("select runner.enqueue('t')", ADDERS),
    ("select runner.enqueue('t', idempotency_key => 'k', unique_params => true)", ADDERS),
    ("copy runner.task (queue, task_type, params) from stdin", ADDERS),
    ("insert into runner.task (task_type, state) values ('t', 'dead')", set()),
    ("insert into runner.task (task_type, fence) values ('t', 7)", set()),
    ("insert into runner.task (task_type, last_error) values ('t', 'x')", set()),
    ("select task_id, task_type, state from runner.task", EVERYBODY),
    ("select params from runner.task", {WORKER, *LOOKERS}),
    ("select last_error from runner.task", {WORKER, *LOOKERS}),
    ("select task_id from runner.task for update", {WORKER, ADMIN}),
    ("update runner.task set state = 'ready'", {WORKER, ADMIN}),
    ("update runner.task set lease_owner = null, fence = 1", {WORKER}),
    ("update runner.task set last_error = 'x', cause = 'y', post_mortem = 'z'", {WORKER}),
    ("update runner.task set params = '{}'", set()),
    ("update runner.task set task_type = 'u'", set()),
    ("update runner.task set idempotency_key = 'x'", set()),
    ("update runner.task set created_at = now()", set()),
    ("delete from runner.task", {WORKER, ADMIN}),
    ("select runner.withdraw('{1}')", ADDERS),
    ("select runner.backlog()", EVERYBODY),
    # leases
    ("select * from runner.worker", {WORKER, *LOOKERS}),
    ("select * from runner.task_lease", {WORKER, *LOOKERS}),
    ("update runner.worker set lease_until = now()", {WORKER}),
    ("delete from runner.worker", {WORKER}),
    (
        f"insert into runner.runner (runner_id, host, pid, lease) values ({ID}, 'h', 1, '1s')",
        {WORKER},
    ),
    ("select idle from runner.runner", EVERYBODY),
    ("select host, pid from runner.runner", {WORKER, *LOOKERS}),
    ("update runner.runner set idle = true", {WORKER}),
    # what is remembered
    ("select idempotency_key from runner.receipt", EVERYBODY),
    ("insert into runner.receipt values ('k', 1, 't')", {WORKER}),
    ("update runner.receipt set task_id = 2", set()),
    ("delete from runner.receipt", {WORKER}),
    ("select * from runner.removed", {WORKER, *LOOKERS}),
    ("insert into runner.removed (task_id, how) values (1, 'cancelled')", {ADMIN}),
    ("delete from runner.removed", set()),
    ("select * from runner.tally", {WORKER, *LOOKERS}),
    (
        "insert into runner.tally (task_type, minute, durations) values ('t', now(), '{}')",
        {WORKER},
    ),
    ("delete from runner.tally", {WORKER}),
    # pauses
    ("select * from runner.pause", {WORKER, *LOOKERS}),
    ("insert into runner.pause (queue) values ('q')", {ADMIN}),
    ("update runner.pause set until = now()", {ADMIN}),
    ("delete from runner.pause", {WORKER, ADMIN}),
    # nothing of the server
    ("create role runner_test_more", set()),
    ("alter role current_user superuser", set()),
    ("copy runner.meta to program 'true'", set()),
    ("select pg_read_file('/etc/passwd')", set()),
]


@pytest.mark.parametrize(("statement", "who"), MATRIX, ids=[row[0][:60] for row in MATRIX])
def test_who_may(statement: str, who: set[str], db: Connection) -> None:
    may = {name for name in logins.NAMES if _may(db, name, statement)}
    assert may == who


def _may(db: Connection, name: str, statement: str) -> bool:
    db.execute(
        sql.SQL("set session authorization {}").format(sql.Identifier(logins.login_of(name)))
    )
    try:
        with db.transaction(force_rollback=True):
            if statement.startswith("copy") and "from stdin" in statement:
                with db.cursor().copy(statement):
                    pass
            else:
                db.execute(statement)
    except errors.InsufficientPrivilege:
        return False
    finally:
        db.execute("reset session authorization")
    return True


def test_the_matrix_names_every_table(db: Connection) -> None:
    tables = db.execute(
        """select relname from pg_class
           where relnamespace = 'runner'::regnamespace and relkind in ('r', 'v', 'p', 'm')"""
    ).fetchall()
    texts = " ".join(statement for statement, _ in MATRIX)
    assert [name for (name,) in tables if f"runner.{name}" not in texts] == []


def test_public_has_nothing(db: Connection) -> None:
    """Who has none of the roles cannot even see the schema; the definer's function is not for all."""
    assert one(db, "select has_schema_privilege('public', 'runner', 'usage')") is False
    assert not one(
        db, "select has_function_privilege('public', 'runner.withdraw(bigint[])', 'execute')"
    )


def test_again_and_a_right_too_many_is_taken_back(fresh: str) -> None:
    with psycopg.connect(fresh, autocommit=True) as conn:
        conn.execute("grant update, truncate on runner.task to runner_read")
        conn.execute(logins.ROLES.read_bytes())
        conn.execute(logins.ROLES.read_bytes())
        for right in ("update", "truncate"):
            query = f"select has_table_privilege('runner_read', 'runner.task', '{right}')"
            assert one(conn, query) is False
        assert one(conn, "select has_table_privilege('runner_read', 'runner.task', 'select')")


def test_the_file_is_what_psql_applies(fresh: str) -> None:
    psql = shutil.which("psql")
    if psql is None:
        pytest.skip("no psql here")
    for _ in range(2):
        command = [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(logins.ROLES), fresh]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_roles_cannot_log_in(db: Connection) -> None:
    query = "select count(*) from pg_roles where rolname = any (%s) and (rolcanlogin or rolsuper)"
    assert one(db, query, [f"runner_{name}" for name in logins.NAMES]) == 0


# -- the commands, each as the role that it is for ------------------------------------------------

LOOKING = ["status --json", "list", "show 1", "explain 1", "todo", "dead list", "workers", "health"]
ACTING = ["pause q", "resume q", "dead requeue {dead}", "cancel {ready}", "dead discard {dead}"]


def _project(directory: Path) -> Path:
    (directory / "tasks.py").write_text(APP)
    return directory


@pytest.mark.process
def test_verbs_that_look_need_read(db: Connection, db_url: str, tmp_path: Path) -> None:
    add(db, "hello")
    for verb in LOOKING:
        allowed = run(*verb.split(), url=logins.login_url(db_url, READ), cwd=tmp_path)
        assert allowed.returncode in (0, 1), (verb, allowed)
        assert "permission" not in allowed.stderr
    refused = run("list", url=logins.login_url(db_url, ENQUEUE), cwd=tmp_path)
    assert error_of(refused).startswith("permission denied for table")
    assert refused.returncode == 78


@pytest.mark.process
def test_verbs_that_act_need_admin(db: Connection, db_url: str, tmp_path: Path) -> None:
    for verb in ACTING:
        (ready,) = add(db, "hello")
        (dead,) = add(db, "hello", state="dead")
        arguments = verb.format(ready=ready, dead=dead).split()
        for name, code in ((READ, 78), (ADMIN, 0)):
            done = run(*arguments, url=logins.login_url(db_url, name), cwd=tmp_path)
            assert done.returncode == code, (verb, name, done)


@pytest.mark.process
def test_adding_needs_enqueue_and_working_worker(
    db: Connection, db_url: str, tmp_path: Path
) -> None:
    project = _project(tmp_path)
    for arguments in (["hello"], ["hello", "--key", "k"], ["hello", "--unique"]):
        added = run("enqueue", *arguments, url=logins.login_url(db_url, ENQUEUE), cwd=project)
        assert added.returncode == 0, added
    again = run("enqueue", "hello", "--key", "k", url=logins.login_url(db_url, ENQUEUE))
    assert "already queued" in again.stderr
    refused = run("drain", "--procs", "1", url=logins.login_url(db_url, ENQUEUE), cwd=project)
    assert "permission denied" in error_of(refused)
    assert refused.returncode == 78
    drained = run("drain", "--procs", "1", url=logins.login_url(db_url, WORKER), cwd=project)
    assert (drained.stderr, drained.returncode) == ("", 0)
    assert one(db, "select count(*) from runner.task") == 0
    done = run("enqueue", "hello", "--key", "k", url=logins.login_url(db_url, ENQUEUE))
    assert "already done" in done.stderr
