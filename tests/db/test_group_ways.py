"""Ways into a group's transaction that do not come by our cursors, and waits that are broken off: what
one task does so is nothing to the others."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest

from runner.handling.session import Disconnected
from runner.store import sending
from runner.store.tx import Tx
from runner.task import Task
from tests.db.attempting import Bench
from tests.db.grouping import EFFECT, SLEEP, Groups, good
from tests.db.stage import effects
from tests.proxy import proxied
from tests.servers import Connection

pytestmark = pytest.mark.db


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """A signal of the handler's own raises in what it waits for; and the handler goes on."""

    def strike(number: int, frame: object) -> None:
        raise ValueError("the handler's own")

    before = signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with suppress(ValueError):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def breaks_off(tx: Tx, task: Task) -> None:
    with alarm(0.2):
        tx.execute(SLEEP, [1.0])
    with suppress(psycopg.Error):
        tx.execute("select %s + 1", [task.id])


def test_a_wait_that_is_broken_off_charges_nobody(groups: Groups) -> None:
    """In pipeline mode more could be sent, and its answer would be that of another statement."""

    def asks(tx: Tx, task: Task) -> None:
        assert tx.execute("select 1 / %s", [1]).fetchone() == (1,)

    with pytest.raises(Disconnected) as lost:
        groups.run(good, breaks_off, asks)
    verdicts = [left.judgement(left.claim) for left in lost.value.left]
    assert len(verdicts) == 3
    assert not any(verdict.failed for verdict in verdicts)


@pytest.mark.direct
def test_nothing_is_told_as_done_behind_a_wait_that_was_broken_off(
    db: Connection, db_url: str
) -> None:
    answers: list[Any] = []

    with proxied(db_url) as (proxy, url):

        def handler(tx: Tx, task: Task) -> None:
            proxy.freeze()
            with alarm(0.2):  # strikes while the transaction is begun
                tx.execute("select 1")
            proxy.thaw()
            with suppress(psycopg.OperationalError):
                answers.append(tx.execute("select %s + 1", [1]))

        db.execute("create table effect (n int)")
        bench = Bench(db, url)
        for _ in range(2):
            bench.run(lambda tx, task: tx.execute("select 1") and None)
        assert bench.conn.our_prepared
        with pytest.raises(Disconnected):
            bench.run(handler)
        assert answers == []
        assert bench.row.state == "running"  # is settled under the next identity


@pytest.mark.direct
def test_a_statement_that_was_broken_off_is_not_waited_for_and_committed(
    db: Connection, db_url: str
) -> None:
    """Its handler went on as if it had not been: so it must not come to be behind its back."""

    def handler(tx: Tx, task: Task) -> None:
        with alarm(0.2):
            tx.execute("insert into effect select 1 from pg_sleep(1)")

    db.execute("create table effect (n int)")
    bench = Bench(db, db_url)
    with pytest.raises(Disconnected):
        bench.run(handler)
    assert bench.row.state == "running"  # is settled under the next identity
    assert effects(db) == 0


@pytest.mark.direct
def test_a_group_that_cannot_be_begun_leaves_its_first_task_to_be_run(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups.bench.conn.free = False
    monkeypatch.setattr(sending, "FREE", [b"select 1 / 0"])  # what goes before a BEGIN fails
    ids = groups.run(good, good)
    assert groups.returned is not None
    assert groups.returned.task_id == ids[0]


def test_who_declares_a_cursor_is_the_last_of_its_group(groups: Groups) -> None:
    """Nobody else fetches from it, and its name is free again for the next one."""

    def declares(tx: Tx, task: Task) -> None:
        with tx.cursor("kept") as cursor:
            cursor.execute("select n from generate_series(1, 3) as n")
        good(tx, task)

    ids = groups.run(good, declares, good)
    assert groups.returned is not None
    assert groups.returned.task_id == ids[2]
    assert groups.effects() == ids[:2]


def test_a_block_past_our_own_is_nothing_to_the_next(groups: Groups) -> None:
    blocks: list[psycopg.Transaction] = []

    def opens(tx: Tx, task: Task) -> None:
        blocks.append(psycopg.Transaction(tx))
        blocks[0].__enter__()
        good(tx, task)

    def goes_back(tx: Tx, task: Task) -> None:
        blocks[0].__exit__(ValueError, ValueError(), None)

    ids = groups.run(good, opens, goes_back, good)
    assert sorted(groups.left(ids)) == [2]
    assert groups.effects() == [ids[0], ids[1], ids[3]]


def test_who_has_a_cursor_of_another_class_is_the_last_of_its_group(groups: Groups) -> None:
    """Nobody has looked at what it sends: a setting, or a savepoint that the next one goes back to."""

    def opens(tx: Tx, task: Task) -> None:
        psycopg.ClientCursor(tx).execute("savepoint a")
        good(tx, task)

    ids = groups.run(good, opens, good)
    assert groups.returned is not None
    assert groups.returned.task_id == ids[2]
    assert groups.effects() == ids[:2]


def test_a_block_of_psycopgs_own_is_undone_with_its_task(groups: Groups) -> None:
    def uses(tx: Tx, task: Task) -> None:
        with psycopg.Transaction(tx):
            good(tx, task)

    def uses_and_raises(tx: Tx, task: Task) -> None:
        uses(tx, task)
        raise ValueError("behind the block")

    ids = groups.run(good, uses, uses_and_raises, good)
    assert sorted(groups.left(ids)) == [2]
    assert groups.effects() == [ids[0], ids[1], ids[3]]


def test_a_thread_of_one_is_refused_during_the_next(groups: Groups) -> None:
    go = threading.Event()
    threads: list[threading.Thread] = []

    def leaves_one(tx: Tx, task: Task) -> None:
        def later() -> None:
            go.wait(20)
            with suppress(Exception):
                tx.execute(EFFECT, [-1])

        threads.append(threading.Thread(target=later))
        threads[0].start()
        good(tx, task)

    def lets_it_go_on(tx: Tx, task: Task) -> None:
        good(tx, task)
        go.set()
        threads[0].join(20)

    ids = groups.run(leaves_one, lets_it_go_on)
    assert groups.left(ids) == {}
    assert groups.effects() == ids


def test_what_one_met_in_a_group_that_was_undone_is_not_charged(groups: Groups) -> None:
    """It was in the way of another's row, which nobody has ever seen committed."""
    db = groups.bench.db
    db.execute("create table target (n int primary key)")
    db.execute("create table pointer (n int references target deferrable initially deferred)")

    def writes(tx: Tx, task: Task) -> None:
        tx.execute("insert into target values (1)")
        good(tx, task)

    def fails_at_commit(tx: Tx, task: Task) -> None:
        tx.execute("insert into pointer values (%s)", [-1])

    ids = groups.run(writes, writes, fails_at_commit)
    again = ("ready", 0, "its group was rolled back")
    assert groups.left(ids) == dict.fromkeys(range(3), again)
    assert groups.effects() == []


def test_an_end_behind_a_copy_is_refused_before_it_commits_the_others(groups: Groups) -> None:
    def copies(tx: Tx, task: Task) -> None:
        with tx.cursor().copy("copy (select 1) to stdout; commit; begin") as copy:
            list(copy)

    ids = groups.run(good, copies, good)
    assert groups.left(ids) == {1: ("scheduled", 1, "TransactionMisuse")}
    assert groups.effects() == [ids[0], ids[2]]
