"""A server that a test may hurt: crash, stop, start again, or set up otherwise."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from runner.embedded import processes
from tests import fleets, servers
from tests.servers import wait_until


class Hurt:
    """A server of the test's own that can be crashed and started again."""

    def __init__(self, server: servers.Embedded, home: Path) -> None:
        self.server = server
        self.home = home
        self.data = home / "server" / "data"

    def crash(self) -> None:
        """`pg_ctl stop -m immediate`, by its signal; returns when nothing of it runs."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """`pg_ctl stop -m fast`."""
        self._end(signal.SIGINT)

    def _end(self, number: signal.Signals) -> None:
        pid = processes.postmaster(self.data)
        assert pid is not None
        os.kill(pid, number)
        assert processes.wait_gone(self.data, 20)

    def start(self) -> None:
        """Start it again; recovery is over when this returns."""
        servers.Embedded.open(self.home, binaries=servers.chosen_binaries()).close()

    def configure(self, **settings: str) -> None:
        """Settings for the next start, which this makes."""
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self.stop()
        self.start()


@contextmanager
def hurtable() -> Iterator[tuple[Hurt, str]]:
    """A server that may be hurt, and the URL of a database with the schema in it."""
    binaries = servers.chosen_binaries()
    with (
        servers.reachable_directory() as home,
        servers.Embedded.open(home, binaries=binaries) as server,
    ):
        servers.prepare(server)
        yield Hurt(server, home), servers.create_database(server, "hurt", servers.TEMPLATE)


def reconnect(work: fleets.Work) -> None:
    """A new connection for the witnesses, once there is a server."""
    work.conn.close()

    def connected() -> bool:
        try:
            work.conn = psycopg.connect(work.url, autocommit=True)
        except psycopg.Error:
            return False
        return True

    wait_until(connected, 20, "the database back")
