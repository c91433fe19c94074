"""Renewal waits for nobody: not for a locked row, not for what a handler has locked."""

from dataclasses import replace
from uuid import UUID, uuid4

import psycopg
import pytest

from runner.store import workers
from runner.store.claim import Row
from runner.wire import Renewal
from tests.db.stage import Claimer, add, announce, one
from tests.servers import Connection

pytestmark = pytest.mark.db


def renew(conn: psycopg.Connection, *ids: UUID, done: int = 0) -> set[UUID]:
    return workers.renew(
        conn, [Renewal(worker.bytes, done=done, failed=2, rss=3) for worker in ids]
    )


@pytest.fixture
def impatient(db: Connection) -> Connection:
    """Whoever waits for a lock here fails at once instead."""
    db.execute("set lock_timeout = 1")
    db.execute("set statement_timeout = 2000")
    return db


def until(db: Connection, worker: UUID) -> object:
    return one(db, "select lease_until from runner.worker where worker_id = %s", worker)


def test_a_renewal_extends_and_writes_the_counts(impatient: Connection) -> None:
    db = impatient
    worker, other = announce(db, lease=10), announce(db, lease=20)
    before = until(db, worker)
    assert renew(db, worker, other, done=7) == {worker, other}
    assert until(db, worker) > before  # type: ignore[operator]
    query = "select done, failed, rss, extract(epoch from lease_until - clock_timestamp())::float8"
    rows = db.execute(query + " from runner.worker order by lease").fetchall()
    assert [found[:3] for found in rows] == [(7, 2, 3), (7, 2, 3)]
    assert [round(found[3]) for found in rows] == [10, 20]  # each by its own length


def test_a_locked_row_is_skipped_and_the_others_are_renewed(
    impatient: Connection, db_url: str
) -> None:
    db = impatient
    locked, free = announce(db), announce(db)
    with psycopg.connect(db_url) as other:
        other.execute("select from runner.worker where worker_id = %s for update", [locked])
        assert renew(db, locked, free) == {free}
        # Skipped is not lost.
        assert workers.existing(db, [locked]) == {locked}
        other.rollback()
    assert renew(db, locked) == {locked}


def test_a_claim_in_flight_does_not_hold_a_renewal_up(impatient: Connection, db_url: str) -> None:
    db = impatient
    with psycopg.connect(db_url) as other:
        worker = announce(db, "t")
        other.execute("select from runner.worker where worker_id = %s for key share", [worker])
        assert renew(db, worker) == {worker}


def test_what_a_handler_has_locked_does_not_disturb(impatient: Connection, db_url: str) -> None:
    db = impatient
    add(db, count=2)
    claimers = [Claimer(db, "t"), Claimer(db, "t")]
    tasks = [claimer.take() for claimer in claimers]
    with psycopg.connect(db_url) as handler:
        handler.execute("update runner.task set cause = 'mine'")
        handler.execute("lock table runner.task in exclusive mode")
        assert renew(db, *(one.worker_id for one in claimers)) == {
            claimer.worker_id for claimer in claimers
        }
        asked = [asked_for(*both) for both in zip(claimers, tasks, strict=True)]
        assert workers.taken(db, asked) == []


def test_an_ended_lease_whose_row_is_there_is_renewed(impatient: Connection) -> None:
    worker = announce(impatient)
    impatient.execute("update runner.worker set lease_until = '2001-01-01'")
    assert renew(impatient, worker) == {worker}


def test_lost_is_only_what_is_gone(impatient: Connection) -> None:
    worker, gone = announce(impatient), uuid4()
    assert renew(impatient, worker, gone) == {worker}
    assert workers.existing(impatient, [worker, gone]) == {worker}
    assert one(impatient, "select count(*) from runner.worker") == 1


def test_nobody_to_renew(impatient: Connection) -> None:
    assert renew(impatient) == set()
    assert workers.existing(impatient, []) == set()
    assert workers.taken(impatient, []) == []


@pytest.mark.direct
def test_two_renewers_with_the_same_workers_do_not_deadlock(
    impatient: Connection, db_url: str
) -> None:
    ids = [announce(impatient) for _ in range(5)]
    with psycopg.connect(db_url) as other:
        assert renew(other, *ids) == set(ids)
        assert renew(impatient, *reversed(ids)) == set()
    assert renew(impatient, *reversed(ids)) == set(ids)


def asked_for(claimer: Claimer, task: Row | None) -> Renewal:
    assert task is not None
    return Renewal(claimer.worker_id.bytes, task.task_id, task.fence)


def test_taken_is_what_is_no_longer_its_workers(impatient: Connection) -> None:
    add(impatient, count=4)
    mine, others = Claimer(impatient, "t"), Claimer(impatient, "t")
    kept, gone, ready = (asked_for(mine, mine.take()) for _ in range(3))
    other = asked_for(others, others.take())
    impatient.execute("delete from runner.task where task_id = %s", [gone.task])
    end = "update runner.task set state = 'ready', lease_owner = null where task_id = %s"
    impatient.execute(end, [ready.task])
    older = replace(kept, fence=kept.fence - 1)
    stolen = replace(kept, worker=other.worker)
    asked = [kept, gone, other, ready, older, stolen]
    assert workers.taken(impatient, asked) == [gone, ready, older, stolen]


def test_counts_of_any_size(impatient: Connection) -> None:
    worker = announce(impatient)
    most = 2**63 - 1
    asked = Renewal(worker.bytes, done=most, failed=most, rss=most)
    assert workers.renew(impatient, [asked]) == {worker}
    assert one(impatient, "select done from runner.worker") == most
