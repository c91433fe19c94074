"""The database goes away: what is told of it, and what it has lost when it is back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fleets
from tests.hurting import Hurt, hurtable, reconnect
from tests.proxy import proxied
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db, pytest.mark.everywhere]


@pytest.fixture
def hurt() -> Iterator[tuple[Hurt, str]]:
    """A server that may be crashed, and the URL of a database in it."""
    with hurtable() as one:
        yield one


def test_crashes_right_after_claims(hurt: tuple[Hurt, str], tmp_path: Path) -> None:
    """A claim is on disk before its handler starts: no second handler beside the first, ever."""
    server, url = hurt
    with fleets.work(url, tmp_path) as work:
        with fleets.running(url, tmp_path, procs=2) as fleet:
            tasks: list[int] = []
            for _ in range(10):
                fleets.wait_registered(work, 2)
                before = len(work.noted("start"))
                tasks += work.add("sleepy", seconds=0.3)
                wait_until(lambda least=before: len(work.noted("start")) > least, 20)
                server.crash()
                server.start()
                reconnect(work)
            wait_until(work.empty, 60)
            assert fleet.process.poll() is None
        work.exactly_once(tasks)
        assert not work.noted("overlap")


LET_IN = "update pg_database set datallowconn = %s where datname = current_database()"
END = """select pg_terminate_backend(pid) from pg_stat_activity
    where application_name like %s and datname = current_database()"""


def leave_nobody_to_renew(work: fleets.Work, fleet: fleets.Fleet) -> list[int]:
    """Until the only worker has lost its session, and tries in vain to join again. The task that had it
    notice."""
    fleets.wait_registered(work, 1)
    work.conn.execute(LET_IN, [False])
    assert work.conn.execute(END, ["runner worker %"]).rowcount == 1
    tasks = work.add("ordinary")
    wait_until(lambda: fleet.log().count("cannot connect") >= 3, 20, "no worker is left")
    assert "database is away" not in fleet.log()
    return tasks


@pytest.mark.direct  # behind a pooler a session that is ended is not the client's
def test_an_outage_is_told_where_no_worker_is_left_to_renew(fresh: str, tmp_path: Path) -> None:
    """The renewer is asked for nobody, and finds out by itself that its session is over."""
    with fleets.work(fresh, tmp_path) as work:
        with fleets.running(fresh, tmp_path, "-v", procs=1) as fleet:
            tasks = leave_nobody_to_renew(work, fleet)
            assert work.conn.execute(END, ["runner renewer"]).rowcount == 1
            why = "database is away, trying again: terminating connection due to administrator"
            wait_until(lambda: why in fleet.log(), 20, "told why")
            work.conn.execute(LET_IN, [True])
            wait_until(lambda: "database is back" in fleet.log(), 20)
            wait_until(work.empty, 20)
        work.exactly_once(tasks)


@pytest.mark.direct
def test_a_silent_link_is_told_where_no_worker_is_left_to_renew(fresh: str, tmp_path: Path) -> None:
    """As behind a pooler whose server is away: the session is there, and does not answer."""
    with (
        fleets.work(fresh, tmp_path) as work,
        proxied(fresh) as (proxy, url),
        fleets.running(url, tmp_path, "-v", procs=1) as fleet,
    ):
        leave_nobody_to_renew(work, fleet)
        proxy.freeze()
        wait_until(lambda: "database is away" in fleet.log(), 30, "told")
        proxy.thaw()
        work.conn.execute(LET_IN, [True])
        wait_until(lambda: "database is back" in fleet.log(), 20)
        wait_until(work.empty, 20)
