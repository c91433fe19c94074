"""The database restarts, stays away, or comes back having lost what it had not written."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from runner.embedded import processes
from tests import fleets, servers
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]


class Hurt:
    """A server of the test's own that can be crashed and started again."""

    def __init__(self, server: servers.Embedded, home: Path) -> None:
        self.server = server
        self.home = home

    def crash(self) -> None:
        """`pg_ctl stop -m immediate`, by its signal; returns when nothing of it runs."""
        data = self.home / "server" / "data"
        pid = processes.postmaster(data)
        assert pid is not None
        os.kill(pid, signal.SIGQUIT)
        assert processes.wait_gone(data, 10)

    def start(self) -> None:
        """Start it again; recovery is over when this returns."""
        servers.Embedded.open(self.home, binaries=servers.chosen_binaries()).close()


@pytest.fixture
def hurt() -> Iterator[tuple[Hurt, str]]:
    """A server that may be crashed, and the URL of a database in it."""
    binaries = servers.chosen_binaries()
    with (
        servers.reachable_directory() as home,
        servers.Embedded.open(home, binaries=binaries) as server,
    ):
        servers.prepare(server)
        yield Hurt(server, home), servers.create_database(server, "hurt", servers.TEMPLATE)


def reconnect(work: fleets.Work) -> None:
    work.conn.close()

    def connected() -> bool:
        try:
            work.conn = psycopg.connect(work.url, autocommit=True)
        except psycopg.Error:
            return False
        return True

    wait_until(connected, 20, "the database back")


def test_restart_and_outage_under_load(hurt: tuple[Hurt, str], tmp_path: Path) -> None:
    """P-03: no process dies for good, one outage in the log for each, all effects once."""
    server, url = hurt
    away_seconds = 20 if os.environ.get("RUNNER_TEST_FULL") else 6
    with fleets.work(url, tmp_path) as work:
        tasks = work.add("slow", 400, seconds=0.05)
        with fleets.running(url, tmp_path, "--lease", "10s", "--renew", "1s", procs=4) as fleet:
            workers = set(fleets.wait_registered(work, 4).values())
            wait_until(lambda: len(work.effects()) > 20)
            server.crash()
            server.start()
            reconnect(work)
            wait_until(lambda: len(work.effects()) > 60, 20)
            server.crash()
            time.sleep(away_seconds)
            server.start()
            reconnect(work)
            wait_until(work.empty, 60)
            assert set(fleets.wait_registered(work, 4).values()) == workers
            assert fleet.log().count("database is away") == 2
            assert fleet.log().count("database is back") == 2
            assert fleet.stop() == 0
        work.exactly_once(tasks)
        assert not work.noted("overlap")
        assert "Traceback" not in fleet.log()


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
