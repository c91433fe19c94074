"""Cases about enqueueing: from a handler, beside a handler, twice in one transaction."""

from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row

import runner
from tests.cases.aftermath import Scene
from tests.servers import Connection, wait_until

pytestmark = pytest.mark.db
process = pytest.mark.process


@pytest.mark.case("P-13")
@process
def test_p13_a_task_enqueues_itself(scene: Scene) -> None:
    """Unique, with its own type and params, from its own transaction: on success one new row, on
    failure the old one alone, with its attempt."""
    work = scene.work
    ways = {how: runner.enqueue(work.conn, "again", {"how": how}, unique=True) for how in HOW}
    with scene.fleet("--backoff", "600s", procs=1):
        wait_until(lambda: work.states() == {"scheduled": 2})
    query = "select task_id, params ->> 'how', attempt from runner.task order by task_id"
    (failed, succeeded) = work.conn.execute(query).fetchall()
    assert failed == (ways["raise"], "raise", 1)
    assert succeeded[0] not in ways.values()
    assert succeeded[1:] == ("return", 0)
    assert set(work.effects()) == {ways["return"]}


HOW = ("raise", "return")


@pytest.mark.case("P-27")
@process
@pytest.mark.parametrize("options", [{"key": "k"}, {"unique": True}], ids=["key", "unique"])
def test_p27_no_waiting_for_a_running_task(scene: Scene, options: dict[str, Any]) -> None:
    """While the handler of that very task sleeps in an open transaction, the answer comes at once: a
    key is taken, a unique task that runs no longer counts as waiting, so that is a new row."""
    work = scene.work
    params = {"seconds": 4}
    first = runner.enqueue(work.conn, "slow", params, **options)
    idle = """select from pg_stat_activity where state = 'idle in transaction'
              and query like 'insert into effect%' and datname = current_database()"""
    with scene.fleet(procs=2):
        wait_until(lambda: work.conn.execute(idle).rowcount, 20, "the handler sleeps")
        with psycopg.connect(work.url) as other:
            second = runner.enqueue(other, "slow", params, **options)
            other.commit()
        assert work.row(first or 0) is not None, "it still runs"
        assert (second is None) == ("key" in options)
        wait_until(work.empty, 20)
    work.exactly_once([task for task in (first, second) if task is not None])


FACTORIES = [
    {},
    {"row_factory": dict_row},
    {"row_factory": namedtuple_row, "cursor_factory": psycopg.ClientCursor},
    {"autocommit": True},
]


@pytest.mark.case("P-28")
@pytest.mark.parametrize("how", FACTORIES, ids=["plain", "dict", "named", "autocommit"])
@pytest.mark.parametrize("savepoint", [False, True], ids=["", "savepoint"])
@pytest.mark.parametrize("options", [{"key": "k"}, {"unique": True}], ids=["key", "unique"])
def test_p28_a_duplicate_does_not_abort_the_transaction(
    db: Connection, db_url: str, how: dict[str, Any], savepoint: bool, options: dict[str, Any]
) -> None:
    """Order, task, the same again, order line, commit: both rows and one task; the answer to the repeat
    is None, whatever the caller's connection makes of rows. Other errors are not hidden."""
    db.execute("create table shop (line text)")
    with psycopg.connect(db_url, **how) as conn, conn.transaction():
        conn.execute("insert into shop values ('order')")
        assert isinstance(runner.enqueue(conn, "hello", **options), int)
        if savepoint:
            with conn.transaction():
                assert runner.enqueue(conn, "hello", **options) is None
        assert runner.enqueue(conn, "hello", **options) is None
        conn.execute("insert into shop values ('line')")
    assert db.execute("select count(*) from shop").fetchone() == (2,)
    assert db.execute("select count(*) from runner.task").fetchone() == (1,)
    with pytest.raises(psycopg.errors.CheckViolation):
        db.execute("select runner.enqueue('hello', priority => 10::smallint)")
