"""`runner.Client`: connections of its own."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

import runner
from runner.errors import ConfigError
from tests.servers import Connection

pytestmark = pytest.mark.db


def test_each_call_is_committed(db: Connection, db_url: str) -> None:
    with runner.Client(db_url) as client:
        assert client.enqueue("hello", {"a": 1}, key="k", priority=2) is not None
        assert client.enqueue("hello", key="k") is None
        assert client.enqueue_many(({"n": n} for n in range(10)), type="many") == 10
        assert db.execute("select count(*) from runner.task").fetchone() == (11,)


def test_a_connection_for_work_beside_it(db: Connection, db_url: str) -> None:
    with runner.Client(db_url) as client:
        with pytest.raises(ZeroDivisionError), client.connection() as conn:
            1 / (runner.enqueue(conn, "hello") is None)
        assert db.execute("select count(*) from runner.task").fetchone() == (0,)
        with client.connection() as conn:
            runner.enqueue(conn, "hello")
    assert db.execute("select count(*) from runner.task").fetchone() == (1,)


def test_shared_by_threads(db: Connection, db_url: str) -> None:
    with runner.Client(db_url, max_size=2) as client, ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda n: client.enqueue("hello", {"n": n}), range(40)))
    assert len(ids) == 40


def test_a_lost_connection_is_replaced(db: Connection, db_url: str) -> None:
    with runner.Client(db_url) as client:
        assert client.enqueue("hello")
        ended = db.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where application_name = 'runner client'"
        ).fetchall()
        assert ended == [(True,)]
        assert client.enqueue("hello")


def test_used_again_after_a_close(db: Connection, db_url: str) -> None:
    client = runner.Client(db_url)
    assert client.enqueue("hello")
    client.close()
    assert client.enqueue("hello")
    client.close()
    client.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_used_on_after_a_fork(db: Connection, db_url: str) -> None:
    with runner.Client(db_url) as client:
        assert client.enqueue("parent")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if client.enqueue("child") else 2
                client.close()
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert client.enqueue("parent")
    rows = db.execute("select task_type, count(*) from runner.task group by 1 order by 1")
    assert rows.fetchall() == [("child", 1), ("parent", 2)]


def test_a_url_that_does_not_parse_is_not_repeated() -> None:
    client = runner.Client("postgresql://u:s3cret@h:p@x/d")
    with pytest.raises(ConfigError) as error:
        client.enqueue("hello")
    assert "s3cret" not in str(error.value)
