"""A claim as a worker sends it: its rows are read while its COMMIT is under way, and count after it."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from runner.store.connect import connect
from runner.store.tx import Tx
from runner.wire import Token
from tests.db.stage import Claimer, add, one, row, waits_for_lock
from tests.servers import Connection, wait_until

pytestmark = [pytest.mark.db, pytest.mark.direct]
# Refuses each claim at its COMMIT.
LATE = """
create function late() returns trigger language plpgsql as
    $$ begin raise exception 'too late'; end $$;
create constraint trigger late after update on runner.task deferrable initially deferred
    for each row execute function late()
"""
DROP_LATE = "drop trigger if exists late on runner.task; drop function if exists late"
# Holds each of them there until a lock is free.
HELD = LATE.replace("raise exception 'too late'", "perform pg_advisory_xact_lock(7); return null")


@pytest.fixture
def conn(db: Connection, db_url: str) -> Iterator[Tx]:
    """A worker's session."""
    with connect(db_url, "worker test", factory=Tx) as conn:
        yield conn
    db.execute(DROP_LATE)


class Asking(Claimer):
    """A claimer in a worker's session."""

    def __init__(self, conn: Tx, *types: str) -> None:
        super().__init__(conn, *types)
        self.know(*(("default", name, 5) for name in types))
        assert not self.claim()  # with which it is prepared

    def ask(self, **options: Any) -> list[int]:
        return [row.task_id for row in self.claim(**options)]


def test_what_is_called_while_the_server_is_at_it(db: Connection, db_url: str, conn: Tx) -> None:
    asking, pid = Asking(conn, "t"), conn.info.backend_pid
    (task,) = add(db)
    with psycopg.connect(db_url) as gate:
        gate.execute("lock table runner.task")

        def sent() -> None:
            wait_until(lambda: waits_for_lock(db, pid))
            gate.commit()

        assert asking.ask(sent=sent) == [task]


def test_rows_are_read_before_the_commit_and_count_after_it(
    db: Connection, db_url: str, conn: Tx, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, pid = Asking(conn, "t"), conn.info.backend_pid
    (task,) = add(db)
    db.execute(HELD)
    real = conn.ask
    with psycopg.connect(db_url) as gate:
        gate.execute("select pg_advisory_xact_lock(7)")

        def ask(*args: Any, read: Any, **options: Any) -> Any:
            def reading(result: Any) -> Any:
                wait_until(lambda: waits_for_lock(db, pid))
                assert row(db, task).state == "ready"
                gate.commit()
                return read(result)

            return real(*args, read=reading, **options)

        monkeypatch.setattr(conn, "ask", ask)
        assert asking.ask() == [task]
    assert row(db, task).state == "running"


def test_a_claim_whose_commit_fails_has_claimed_nothing(db: Connection, conn: Tx) -> None:
    asking = Asking(conn, "t")
    (task,) = add(db)
    db.execute(LATE)
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        asking.ask()
    assert (row(db, task).state, row(db, task).attempt) == ("ready", 0)
    db.execute(DROP_LATE)
    assert asking.ask() == [task]


def test_a_claim_that_fails_leaves_the_session_as_it_was(db: Connection, conn: Tx) -> None:
    asking = Asking(conn, "t")
    (task,) = add(db)
    with psycopg.connect(db.info.dsn) as other:
        other.execute("lock table runner.task")
        conn.execute("set lock_timeout = '20ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            asking.ask()
    assert asking.ask() == [task]
    assert conn.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize("how", ["deallocate all", "deallocate runner_claim"])
def test_a_claim_that_is_no_longer_prepared_is_so_again(db: Connection, conn: Tx, how: str) -> None:
    asking = Asking(conn, "t")
    tasks = add(db, count=2)
    assert asking.ask()
    conn.execute(how)
    with pytest.raises(psycopg.errors.InvalidSqlStatementName):
        asking.ask()
    conn.restore(thorough=True)  # as a worker does that cannot claim
    assert asking.ask()
    assert [row(db, task).state for task in tasks] == ["running"] * 2


def test_a_claim_stays_prepared_over_a_reset(db: Connection, conn: Tx) -> None:
    asking = Asking(conn, "t")
    planned = "select prepare_time from pg_prepared_statements where name = 'runner_claim'"
    before = one(conn, planned)
    conn.execute("set timezone = 'Asia/Tokyo'")
    conn.restore(thorough=True)
    assert one(conn, "show timezone") == "UTC"
    add(db)
    assert asking.ask()
    assert one(conn, planned) == before


@pytest.mark.parametrize(
    "hurt",
    ["deallocate runner_claim; prepare runner_claim as select 1", "deallocate all", "select"],
)
def test_whatever_is_known_of_it_a_reset_finds_out(db: Connection, conn: Tx, hurt: str) -> None:
    asking = Asking(conn, "t")
    (task,) = add(db)
    conn.send(hurt.encode())
    conn.our_prepared.clear()  # as where a DEALLOCATE ALL in a pipeline was passed over
    conn.restore(thorough=True)
    assert asking.ask() == [task]


@pytest.mark.parametrize("pooled", [False, True])
def test_an_app_that_has_psycopg_tell_the_type_of_a_text(
    db: Connection, db_url: str, pooled: bool
) -> None:
    with connect(db_url, "worker test", factory=Tx) as conn:
        conn.ours = not pooled  # then by psycopg's cursor
        conn.adapters.register_dumper(str, psycopg.types.string.StrDumper)
        claimer = Claimer(conn, "t").know(("default", "t", 5))
        done = [Token(each.task_id, each.fence) for _ in add(db) for each in claimer.claim()]
        (task,) = add(db)
        assert [each.task_id for each in claimer.claim(done=done)] == [task]
    assert one(db, "select array_agg(task_id) from runner.task") == [task]


def test_a_session_that_ends_meanwhile(db: Connection, db_url: str, conn: Tx) -> None:
    asking, pid = Asking(conn, "t"), conn.info.backend_pid
    (task,) = add(db)
    with psycopg.connect(db_url) as gate:
        gate.execute("lock table runner.task")

        def sent() -> None:
            wait_until(lambda: waits_for_lock(db, pid))
            db.execute("select pg_terminate_backend(%s)", [pid])

        with pytest.raises(psycopg.OperationalError):
            asking.ask(sent=sent)
    assert conn.closed
    assert row(db, task).state == "ready"


def test_names_outside_of_ascii_in_a_session_of_another_encoding(
    db: Connection, db_url: str
) -> None:
    url = psycopg.conninfo.make_conninfo(db_url, client_encoding="latin1")
    with connect(url, "worker test", factory=Tx) as conn:
        claimer = Claimer(conn, "größe", priorities={"größe": 1}).know(("default", "größe", 5))
        (task,) = add(db, "größe", params='{"größe": "ß"}')
        (found,) = claimer.claim()
    assert (found.task_id, found.task_type) == (task, "größe")
    assert found.task(None).params == {"größe": "ß"}
    assert one(db, "select count(*) from runner.task where state = 'running'") == 1
