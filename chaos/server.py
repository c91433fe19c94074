"""A PostgreSQL server to be hurt: crashed, started again, copied as a standby, promoted.

The embedded server of the package is made to stay up in one place; this one is made of the same
programs, listens where it is told to, and may run on a host of its own (`chaos.hosts`).
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from chaos.clock import Clock
from chaos.disk import Disk
from runner.embedded import processes
from runner.embedded.account import Account, account_for
from runner.embedded.binaries import Binaries, find_binaries, reachable
from runner.store import schema

PORT = 5432
USER = "postgres"
SETTINGS = {
    "max_connections": "100",
    "shared_buffers": "64MB",
    "jit": "off",
    "timezone": "UTC",
    "lc_messages": "C",
    "wal_level": "replica",
    "max_wal_senders": "8",
    "wal_keep_size": "512MB",
    "log_checkpoints": "off",
}


class ServerTrouble(RuntimeError):
    """A program of PostgreSQL failed."""


@dataclass
class Server:
    """A data directory and what serves it. `address` None: only a socket in the file system."""

    home: Path
    programs: Binaries
    account: Account
    address: str | None = None
    prefix: Sequence[str] = ()  # a command that runs another on the server's host
    settings: Mapping[str, str] = field(default_factory=dict)
    disk: Disk | None = None  # that its data alone is on
    clock: Clock | None = None  # that it runs by
    disturbed: bool = False  # a fault that lasts is at work on it

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def sockets(self) -> Path:
        return self.home / "s"

    @property
    def log(self) -> Path:
        return self.home / "log"

    def url(self, database: str = "postgres") -> str:
        """By the socket, which no network cuts."""
        return f"postgresql://{USER}@/{database}?host={self.sockets}&port={PORT}"

    def remote_url(self, database: str = "postgres") -> str:
        """By the network."""
        return f"postgresql://{USER}@{self.address}:{PORT}/{database}"

    # -- life ---------------------------------------------------------------------------------------

    def add_disk(self) -> None:
        """Before there is data: put it on a disk that can be filled."""
        self.disk = Disk(self.data, self.account)
        self.disk.mount()

    def add_clock(self) -> None:
        """Before it starts: let it run by a clock that can be set."""
        self.clock = Clock(self.home / "clock")

    def initialise(self) -> None:
        """Make the data; everybody who reaches it is let in."""
        fixed = ("-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.run("initdb", "-D", self.data, *fixed)
        with (self.data / "pg_hba.conf").open("a") as hba:
            hba.write("host all all all trust\nhost replication all all trust\n")

    def start(self) -> None:
        """Start it; recovery is over when this returns."""
        (self.data / "postmaster.pid").unlink(
            missing_ok=True
        )  # a number that may be another's by now
        chosen = {
            **SETTINGS,
            **self.settings,
            "listen_addresses": self.address or "",
            "unix_socket_directories": str(self.sockets),
            "port": str(PORT),
        }
        options = " ".join(shlex.quote(f"--{name}={value}") for name, value in chosen.items())
        self.run("pg_ctl", "start", "-D", self.data, "-s", "-w", "-t", "60", "-o", options)

    def crash(self) -> None:
        """`pg_ctl stop -m immediate`, by its signal; returns when nothing of it runs."""
        self.stop(signal.SIGQUIT)

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """End it, and wait for that."""
        pid = processes.postmaster(self.data)
        if pid is not None:
            processes.send(pid, number)
        if not processes.wait_gone(self.data, 20):
            raise ServerTrouble(f"processes of {self.data} do not end")

    def restart(self) -> None:
        """An immediate restart."""
        self.crash()
        self.start()

    @property
    def alive(self) -> bool:
        """Whether a postmaster serves the data."""
        return processes.postmaster(self.data) is not None

    # -- databases and standbys ---------------------------------------------------------------------

    def create(self, name: str) -> None:
        """A database with the schema in it."""
        with psycopg.connect(self.url(), autocommit=True) as conn:
            conn.execute(f"create database {name}")
        with psycopg.connect(self.url(name), autocommit=True) as conn:
            schema.install(conn)

    def clone(self, standby: "Server", name: str = "standby") -> None:
        """Make another server's data a streaming copy of this one, under an application_name."""
        source = self.remote_url() if self.address else self.url()
        target = psycopg.conninfo.make_conninfo(source, application_name=name)
        how = ("-R", "-X", "stream", "-c", "fast", "--no-sync")
        standby.run("pg_basebackup", "-D", standby.data, *how, "-d", target)
        for stale in ("postmaster.pid", "postmaster.opts"):
            (standby.data / stale).unlink(missing_ok=True)

    def promote(self) -> None:
        """Make a standby the primary; it is one when this returns."""
        self.run("pg_ctl", "promote", "-D", self.data, "-s", "-w", "-t", "60")

    # -- programs -----------------------------------------------------------------------------------

    def run(self, program: str, *arguments: str | Path) -> None:
        """Run a program of PostgreSQL as the server's user, on the server's host."""
        by_clock = self.clock.command() if self.clock else ()
        command = [*self.prefix, *self._as_user(), *by_clock, str(self.programs.path / program)]
        with self.log.open("ab") as log:
            done = subprocess.run(
                [*command, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
                cwd="/",
                umask=0o077,
                start_new_session=True,
                timeout=90,
                check=False,
            )
        if done.returncode:
            tail = self.log.read_text(errors="replace")[-2000:]
            raise ServerTrouble(f"{program} failed: {tail}")

    def _as_user(self) -> list[str]:
        if self.account.is_caller:
            return []
        ids = (f"--reuid={self.account.uid}", f"--regid={self.account.gid}")
        return ["setpriv", *ids, "--clear-groups"]


@contextlib.contextmanager
def place(binaries: Path | None = None) -> Iterator["Place"]:
    """A temporary home for servers; what still runs there at the end is ended."""
    root = Path(tempfile.mkdtemp(prefix="runner-chaos-"))
    root.chmod(0o755)
    home = Place(root, binaries)
    try:
        yield home
    finally:
        home.close()


class Place:
    """Where servers live: one directory each, below one that is thrown away."""

    def __init__(self, root: Path, binaries: Path | None = None) -> None:
        self.root = root
        self.servers: list[Server] = []
        self.account = account_for(root)
        found = find_binaries(only=binaries)
        self.programs = reachable(found, self.account, root / "binaries")

    def make(
        self,
        name: str,
        *,
        address: str | None = None,
        prefix: Sequence[str] = (),
        **settings: str,
    ) -> Server:
        """A server without data yet."""
        home = self.root / re.sub(r"\W", "_", name)
        for path in (home, home / "s"):
            path.mkdir(mode=0o700)
            self.account.own(path)
        server = Server(home, self.programs, self.account, address, prefix, settings)
        self.servers.append(server)
        return server

    def close(self) -> None:
        """End every server, and throw everything away."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._throw_away)
            for server in self.servers:
                if server.disk is not None:
                    stack.callback(server.disk.unmount)
                if server.alive:
                    stack.callback(server.stop, signal.SIGQUIT)

    def _throw_away(self) -> None:
        end = time.monotonic() + 5
        while self.root.exists() and time.monotonic() < end:
            shutil.rmtree(self.root, ignore_errors=True)
