"""The schema: applied again and by psql alone, versions told apart, and the ways in without our code."""

import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from runner.embedded import Embedded
from runner.errors import SchemaMismatch
from runner.store import schema
from tests import servers
from tests.db.stage import add, one, row
from tests.servers import Connection

pytestmark = pytest.mark.db

OBJECTS = """
    select string_agg(what, e'\\n' order by what) from (
        select format('%s %s %s', c.oid::regclass, c.relkind, a.attname) || coalesce(
            ' ' || format_type(a.atttypid, a.atttypmod), '') as what
        from pg_class c left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
        where c.relnamespace = 'runner'::regnamespace
        union all select oid::regprocedure::text from pg_proc
        where pronamespace = 'runner'::regnamespace
        union all select format('%s %s', conrelid::regclass, pg_get_constraintdef(oid))
        from pg_constraint where connamespace = 'runner'::regnamespace
        union all select format('%s %s', tgrelid::regclass, tgname) from pg_trigger
        where not tgisinternal) all_of_it"""


@pytest.fixture
def empty(server: Embedded) -> str:
    """The URL of a database without our schema."""
    with psycopg.connect(servers.database_url(server.url, "postgres"), autocommit=True) as conn:
        conn.execute("drop database if exists runner_without_schema with (force)")
        conn.execute("create database runner_without_schema template template0")
    return servers.database_url(server.url, "runner_without_schema")


def test_applied_again_it_changes_nothing(fresh: str) -> None:
    with psycopg.connect(fresh, autocommit=True) as conn:
        (task,) = add(conn)
        before = one(conn, OBJECTS)
        for _ in range(2):
            schema.install(conn)
        assert one(conn, OBJECTS) == before
        assert row(conn, task) is not None
        schema.check(conn)


def test_applied_by_two_at_once(empty: str) -> None:
    from tests.db.stage import Background

    def install() -> None:
        with psycopg.connect(empty, autocommit=True) as conn:
            schema.install(conn)

    calls = [Background(install) for _ in range(3)]
    failures = []
    for call in calls:
        try:
            call.result()
        except psycopg.Error as error:
            failures.append(error)
    # `create … if not exists` may lose a race; whoever lost may try again, and nothing is half there.
    install()
    with psycopg.connect(empty, autocommit=True) as conn:
        schema.check(conn)
    assert len(failures) < 3


def test_the_file_is_what_psql_applies(empty: str) -> None:
    path = Path(schema.__file__).parents[2] / "schema.sql"
    assert path.read_text() == schema.text()
    psql = shutil.which("psql")
    if psql is None:
        pytest.skip("no psql here")
    for _ in range(2):
        command = [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(path), empty]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "ERROR" not in done.stderr
    with psycopg.connect(empty, autocommit=True) as conn:
        schema.check(conn)


def test_a_failure_in_the_middle_leaves_nothing(empty: str) -> None:
    with psycopg.connect(empty, autocommit=True) as conn:
        broken = schema.text().replace("create table if not exists runner.pause", "create tabel x")
        with pytest.raises(errors.SyntaxError):
            conn.execute(broken.encode())
        conn.rollback()
        assert schema.version(conn) is None


def test_no_schema_is_told(empty: str) -> None:
    with psycopg.connect(empty, autocommit=True) as conn:
        with pytest.raises(
            SchemaMismatch, match="runner_without_schema has no runner schema"
        ) as told:
            schema.check(conn)
        assert told.value.hint == "run: runner init"
        assert told.value.exit_code == 78


def test_an_older_and_a_newer_one_are_told(fresh: str) -> None:
    with psycopg.connect(fresh, autocommit=True) as conn:
        schema.check(conn)
        for version, words in ((schema.VERSION - 1, "migrate"), (schema.VERSION + 1, "newer")):
            conn.execute("update runner.meta set version = %s", [version])
            with pytest.raises(SchemaMismatch) as told:
                schema.check(conn)
            assert str(version) in str(told.value)
            assert words in f"{told.value} {told.value.hint}"


@pytest.mark.parametrize(
    "columns",
    [
        {"priority": 10},
        {"priority": -1},
        {"queue": ""},
        {"queue": "q" * 64},
        {"queue": "é" * 32},
        {"idempotency_key": ""},
        {"idempotency_key": "k" * 513},
        {"state": "done"},
        {"attempt": -1},
        {"released": -1},
        {"max_attempts": 0},
        {"state": "running"},  # by nobody
        {"state": "ready", "lease_owner": "00000000-0000-0000-0000-000000000001"},
        {"attempt": 3, "max_attempts": 3},
        {"attempt": 4, "max_attempts": 3, "state": "dead"},
    ],
    ids=str,
)
def test_what_no_row_may_be(db: Connection, columns: dict[str, object]) -> None:
    with pytest.raises(errors.CheckViolation):
        add(db, **columns)


@pytest.mark.parametrize("name", ["", "t" * 256])
def test_what_no_type_may_be(db: Connection, name: str) -> None:
    with pytest.raises(errors.CheckViolation):
        add(db, name)


def test_dead_rows_may_have_used_all_attempts(db: Connection) -> None:
    (task,) = add(db, state="dead", attempt=3, max_attempts=3)
    assert row(db, task).state == "dead"


def test_a_pause_of_nothing_is_refused(db: Connection) -> None:
    with pytest.raises(errors.CheckViolation):
        db.execute("insert into runner.pause (queue, task_type) values (null, null)")
    db.execute("insert into runner.pause (queue) values ('q')")
    with pytest.raises(errors.UniqueViolation):
        db.execute("insert into runner.pause (queue) values ('q')")


def test_a_plain_insert_is_ready(db: Connection) -> None:
    (task,) = add(db)
    stored = row(db, task)
    assert (stored.state, stored.queue, stored.priority, stored.params) == (
        "ready",
        "default",
        5,
        {},
    )
    assert (stored.attempt, stored.fence, stored.max_attempts) == (0, 0, None)


@pytest.mark.parametrize(
    ("run_at", "state"),
    [
        ("2999-01-01", "scheduled"),
        ("infinity", "scheduled"),
        ("2001-01-01", "ready"),
        ("-infinity", "ready"),
    ],
)
def test_a_plain_insert_for_later_is_scheduled(db: Connection, run_at: str, state: str) -> None:
    (task,) = add(db, run_at=run_at)
    assert one(db, "select state from runner.task where task_id = %s", task) == state


def test_an_insert_for_later_in_another_state_keeps_it(db: Connection) -> None:
    (task,) = add(db, run_at="2999-01-01", state="dead")
    assert row(db, task).state == "dead"


class TestNotify:
    """A hint for the idle, and only then."""

    def heard(self, db: Connection, url: str, *statements: str) -> list[str]:
        with psycopg.connect(url, autocommit=True) as listener:
            listener.execute("listen runner")
            for statement in statements:
                db.execute(statement)
            db.execute("notify runner, 'the end'")
            found = []
            for notification in listener.notifies(timeout=10):
                if notification.payload == "the end":
                    return sorted(found)
                found.append(notification.payload)
        raise AssertionError("the end was not heard")

    def idle(self, db: Connection, idle: bool) -> None:
        db.execute(
            """insert into runner.runner (runner_id, host, pid, lease, idle)
               values (gen_random_uuid(), 'h', 1, '30 s', %s)""",
            [idle],
        )

    INSERT = "insert into runner.task (task_type, queue) values ('t', 'a'), ('t', 'a'), ('u', 'b')"

    def test_one_line_for_each_queue_with_how_many_when_somebody_idles(
        self, db: Connection, db_url: str
    ) -> None:
        self.idle(db, False)
        self.idle(db, True)
        assert self.heard(db, db_url, self.INSERT) == ["1 b", "2 a"]

    def test_nothing_when_nobody_idles(self, db: Connection, db_url: str) -> None:
        assert self.heard(db, db_url, self.INSERT) == []
        self.idle(db, False)
        assert self.heard(db, db_url, self.INSERT) == []

    def test_nothing_when_it_is_off(self, db: Connection, db_url: str) -> None:
        self.idle(db, True)
        assert self.heard(db, db_url, "set runner.notify = off", self.INSERT) == []
        assert self.heard(db, db_url, "set runner.notify = on", self.INSERT) == ["1 b", "2 a"]

    def test_nothing_for_what_waits_for_later(self, db: Connection, db_url: str) -> None:
        self.idle(db, True)
        later = "insert into runner.task (task_type, run_at) values ('t', '2999-01-01')"
        assert self.heard(db, db_url, later) == []
        none = "insert into runner.task (task_type) select 't' where false"
        assert self.heard(db, db_url, none) == []
