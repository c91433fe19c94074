"""Somebody else changes rows that are claimed, and leaves the claims alone: what ends them waits for it,
finds them wherever they lie by then, and does all it says."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from runner.store import ending
from runner.wire import Token
from tests.db.attempting import Bench
from tests.db.stage import add, one, waits_for_lock
from tests.servers import wait_until

pytestmark = [pytest.mark.db, pytest.mark.direct]
COUNT = 3
End = Callable[[Bench, list[Token]], Any]


@contextmanager
def changing(bench: Bench, url: str) -> Iterator[None]:
    """An UPDATE of all tasks that is committed once the session of `bench` waits for it."""
    with psycopg.connect(url) as other:
        other.execute("update runner.task set priority = 6")

        def commit() -> None:
            wait_until(lambda: waits_for_lock(bench.db, bench.conn.pgconn.backend_pid))
            other.commit()

        thread = threading.Thread(target=commit)
        thread.start()
        try:
            yield
        finally:
            thread.join()


def by_deletion(bench: Bench, tokens: list[Token]) -> None:
    assert ending.delete_done(bench.conn, bench.session.worker_id, tokens) == COUNT


def by_claim(bench: Bench, tokens: list[Token]) -> None:
    """The next one, on the way."""
    assert bench.claimer.claim(done=tokens) == []


def by_group(bench: Bench, tokens: list[Token]) -> None:
    bench.conn.begin_group()
    bench.session.complete_group(tokens)


def claimed(bench: Bench) -> list[Token]:
    add(bench.db, "t", COUNT)
    rows = bench.claimer.look_around().claim(wanted=COUNT, full=True)
    return [Token(row.task_id, row.fence) for row in rows]


@pytest.mark.parametrize("end", [by_deletion, by_claim, by_group])
def test_all_are_deleted(bench: Bench, db_url: str, end: End) -> None:
    tokens = claimed(bench)
    with changing(bench, db_url):
        end(bench, tokens)
    assert one(bench.db, "select count(*) from runner.task") == 0


def test_all_are_handed_back(bench: Bench, db_url: str) -> None:
    tokens = claimed(bench)
    with changing(bench, db_url):
        assert ending.hand_back(bench.conn, bench.session.worker_id, tokens) == COUNT
    ready = (
        "select count(*) from runner.task where state = 'ready' and attempt = 0 and priority = 6"
    )
    assert one(bench.db, ready) == COUNT


@pytest.mark.parametrize("end", [ending.delete_done, ending.hand_back])
def test_but_none_that_has_another_fence_by_then(
    bench: Bench, db_url: str, end: Callable[..., int]
) -> None:
    tokens = claimed(bench)
    bench.db.execute(
        "update runner.task set fence = fence + 1 where task_id = %s", [tokens[1].task_id]
    )
    with changing(bench, db_url):
        assert end(bench.conn, bench.session.worker_id, tokens) == COUNT - 1
    assert (
        one(bench.db, "select task_id from runner.task where state = 'running'")
        == tokens[1].task_id
    )
