"""Cases about the server: it restarts, has no room, keeps old rows, or hides behind a pooler."""

import random
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from chaos import pooler
from runner.config import FleetConfig
from runner.handling.looking import Looking
from runner.registry import Registry
from runner.store import ending
from runner.store.claim import NO_BOUNDS
from runner.wire import Token
from tests import fleets, pooling
from tests.cases.aftermath import Scene
from tests.db.stage import add, announce, one
from tests.hurting import Hurt, reconnect
from tests.logins import another_worker
from tests.servers import report_statistics, wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]


# -- P-03 -----------------------------------------------------------------------------------------


def outages(hurt: tuple[Hurt, Scene], load: int, away_seconds: float) -> None:
    """Restarted fast while idle, at once while handlers are in the middle, and away for long under
    load: the same processes go on by themselves, each outage is told once."""
    server, scene = hurt
    work = scene.work
    with scene.fleet("--lease", "10s", "--renew", "1s", "--backoff", "200ms:1s") as fleet:
        workers = fleets.wait_registered(work, 4)

        def back(outage: int) -> None:
            server.start()
            reconnect(work)
            wait_until(lambda: fleet.log().count("database is back") == outage, 30)

        server.stop()
        back(1)
        tasks = work.add("slow", 8, seconds=0.5)
        wait_until(lambda: work.noted("start"), 20)
        server.crash()
        back(2)
        tasks += work.add("slow", load, seconds=0.02)
        wait_until(lambda: len(work.effects()) > load / 8, 60)
        server.crash()
        time.sleep(away_seconds)
        back(3)
        wait_until(work.empty, 100)
        wait_until(lambda: work.workers() == workers, why="the same processes")
        assert fleet.log().count("database is away") == 3
    work.exactly_once(tasks)


@pytest.mark.case("P-03")
def test_p03_the_database_restarts(hurt: tuple[Hurt, Scene]) -> None:
    outages(hurt, 200, 1.5)


@pytest.mark.case("P-03")
@pytest.mark.full
def test_p03_the_database_is_away_for_a_minute(hurt: tuple[Hurt, Scene]) -> None:
    outages(hurt, 1000, 60.0)


# -- P-24 -----------------------------------------------------------------------------------------

ROOM = 12


@pytest.fixture
def crowded(scene: Scene) -> Iterator[str]:
    """The URL for a login that may have 12 connections and no more (53300, as with a full server)."""
    with another_worker(scene.work.url) as login:
        login.limit(ROOM)
        yield login.url


@pytest.mark.case("P-24")
def test_p24_fewer_connections_than_workers(scene: Scene, crowded: str) -> None:
    """Those that fit work, the renewer first; the others try again quietly, and join when there is
    room. It is said at start, with the arithmetic."""
    work = scene.work
    others = [psycopg.connect(crowded) for _ in range(4)]
    with scene.fleet(procs=16, url=crowded) as fleet:
        tasks = work.add("ordinary", 200)
        wait_until(work.empty, 30)
        few = len(work.workers())
        assert 1 <= few <= ROOM - len(others) - 1
        for other in others:
            other.close()
        wait_until(lambda: len(work.workers()) > few, 30, "others join")
        tasks += work.add("ordinary", 200)
        wait_until(work.empty, 30)
        assert len(fleet.log().splitlines()) < 10, fleet.log()
    work.exactly_once(tasks)


# -- P-25 -----------------------------------------------------------------------------------------


def blocks(conn: psycopg.Connection[Any]) -> int:
    """Blocks of the task table and its indexes that were looked at so far."""
    report_statistics(conn)
    query = """select heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read
               from pg_statio_user_tables where relid = 'runner.task'::regclass"""
    return int(one(conn, query))


def looking(conn: psycopg.Connection[Any]) -> tuple[UUID, Looking]:
    """What a worker claims with, where `urgent` comes before `flood`."""
    registry = Registry()
    for name in ("flood", "urgent"):
        registry.add(lambda tx, task: None, name)
    config = FleetConfig("postgresql://h/d", "tasks", fair=0.0, priorities={"urgent": 0})
    worker = announce(conn, "flood", "urgent", lease=600.0)
    rng = random.Random(1)
    return worker, Looking(conn, worker, config, None, registry, rng, NO_BOUNDS)  # type: ignore[arg-type]


def beside_an_old_snapshot(url: str, backlog: int, consumed: int) -> None:
    """What claims cost whose done are deleted on the way, and what ending claims one by one costs,
    before and after many rows were consumed."""
    with psycopg.connect(url, autocommit=True) as conn, psycopg.connect(url) as old:
        add(conn, "flood", backlog)
        add(conn, "urgent", 100)
        conn.execute("analyze runner.task")  # at the worst moment: when nothing runs
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("select count(*) from runner.task")
        worker, it = looking(conn)
        done: list[Token] = []

        def consume(count: int) -> set[str]:
            types = set()
            for _ in range(count // 50):
                rows = it.claim(lambda _: 50, done, lambda: None, full=False)
                done[:] = [Token(row.task_id, row.fence) for row in rows]
                types |= {row.task_type for row in rows}
            return types

        def of_claims() -> int:
            """Ten claims; the least of five, because now and then the kinds are listed as well."""
            found = []
            for _ in range(5):
                before = blocks(conn)
                consume(500)
                found.append(blocks(conn) - before)
            return min(found)

        def of_ends() -> int:
            before = blocks(conn)
            for token in done:
                ending.complete(conn, worker, token.task_id, token.fence)
            done.clear()
            return blocks(conn) - before

        assert consume(100) == {"urgent"}, "priorities come first, whatever the backlog"
        claims, ends = of_claims(), of_ends()
        consume(consumed)
        assert of_claims() < 1.5 * claims
        assert of_ends() < 1.5 * ends


@pytest.mark.case("P-25")
def test_p25_claims_beside_an_old_snapshot(fresh: str) -> None:
    """Rows that were consumed under a held snapshot stay in the index; a claim does not wade through
    them: counted in blocks, which a busy machine does not change."""
    beside_an_old_snapshot(fresh, 30_000, 10_000)


@pytest.mark.case("P-25")
@pytest.mark.full
def test_p25_a_backlog_of_300_000(fresh: str) -> None:
    beside_an_old_snapshot(fresh, 300_000, 100_000)


# -- P-26 -----------------------------------------------------------------------------------------


@pytest.mark.case("P-26")
@pooling.needed
@pytest.mark.direct
def test_p26_behind_pgbouncer_with_one_connection(scene: Scene) -> None:
    """Transaction mode, one server connection for two whole runners: detected and said; correct by
    polling, with nothing prepared. There is no lasting leader to be doubled: each pass locks for its
    own transaction, so what two runners promote is run once."""
    work = scene.work
    with pooler.pooler(work.url, size=1) as pool:
        url = pool.url(work.url)
        with scene.fleet(procs=2, url=url) as fleet, scene.fleet(procs=2, url=url):
            fleets.wait_registered(work, 2)
            tasks = work.add("ordinary", 200)
            due = """insert into runner.task (task_type, run_at)
                     select 'ordinary', clock_timestamp() + interval '1 s'
                     from generate_series(1, 50) returning task_id"""
            tasks += [row[0] for row in work.conn.execute(due)]
            wait_until(work.empty, 60)
            assert "behind a transaction pooler: polling instead of LISTEN" in fleet.log()
            listening = "select from pg_stat_activity where query ilike 'listen%'"
            assert not work.conn.execute(listening).rowcount
    work.exactly_once(tasks)
    assert {fields[2] for fields in work.noted("start")} == {"1"}
