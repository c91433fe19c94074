"""Where it ends: `runner.task` cannot be partitioned by queue. What stands in the way, one by one, and
what would be lost by somebody who does it all the same."""

import re
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from runner.embedded import Embedded
from runner.store import ending, schema
from runner.store.doctor import Plan, examine
from runner.wire import Token
from tests import servers
from tests.db.stage import Claimer, add, one, row
from tests.servers import Connection

pytestmark = pytest.mark.db

TABLE = re.compile(r"(create table if not exists runner\.task \(.*?\n\)) with \(.*?\n\);", re.S)
BY_QUEUE = r"\1 partition by list (queue);"  # storage parameters belong to the partitions
PARTITIONS = """create table runner.task_a partition of runner.task for values in ('a');
                create table runner.task_b partition of runner.task for values in ('b')"""
NAME = "runner_partitioned"


def by_queue(text: str) -> str:
    return TABLE.sub(BY_QUEUE, text)


def with_wider_keys(text: str) -> str:
    """Every unique key with the queue in it: then PostgreSQL takes it."""
    text = text.replace("identity primary key", "identity", 1)
    text = text.replace(") partition by", ", primary key (task_id, queue)) partition by", 1)
    return text.replace(
        "on runner.task (idempotency_key)", "on runner.task (idempotency_key, queue)", 1
    )


@pytest.fixture
def empty(server: Embedded) -> Iterator[str]:
    """The URL of a database without our schema."""
    yield servers.create_database(server, NAME)
    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute(f"drop database {NAME} with (force)")


@pytest.fixture
def partitioned(empty: str) -> Iterator[Connection]:
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute(with_wider_keys(by_queue(schema.text())))
        conn.execute(PARTITIONS)
        yield conn


def test_a_key_of_the_whole_table_is_refused(empty: str) -> None:
    with (
        psycopg.connect(empty, autocommit=True) as conn,
        pytest.raises(errors.FeatureNotSupported, match="must include all partitioning columns"),
    ):
        conn.execute(by_queue(schema.text()))


def test_with_wider_keys_an_idempotency_key_runs_twice(partitioned: Connection, empty: str) -> None:
    """Two transactions at once, two queues: nothing is there for the second to meet."""
    call = "select runner.enqueue('t', queue => %s, idempotency_key => 'k')"
    with psycopg.connect(empty) as first, psycopg.connect(empty) as second:
        assert one(first, call, "a") is not None
        assert one(second, call, "b") is not None
    assert one(partitioned, "select count(*) from runner.task where idempotency_key = 'k'") == 2


def test_the_end_of_one_task_leaves_another(partitioned: Connection) -> None:
    """Each partition has places of its own: where the row of one task lies lies that of another here,
    which the same worker holds. What is through is not deleted by its place."""
    worker = Claimer(partitioned, "t")
    for queue in ("a", "b"):
        add(partitioned, queue=queue)
    first, second = worker.take(), worker.take()
    assert first is not None
    assert second is not None
    done = [Token(first.task_id, first.fence)]
    ending.delete_done(partitioned, worker.worker_id, done)
    assert row(partitioned, first.task_id) is None
    assert row(partitioned, second.task_id) is not None


def test_doctor_names_what_is_not_as_shipped(partitioned: Connection) -> None:
    found = {one.check: one for one in examine(partitioned, Plan(2, 5))}["schema"]
    assert found.result == "fail"
    assert "task." in found.found
