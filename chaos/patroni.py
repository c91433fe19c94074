"""Three hosts with etcd, Patroni and PostgreSQL, configured by the files under deploy/."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from chaos import hosts, processes, server
from chaos.hosts import Host, Network
from chaos.patience import until
from chaos.runners import ROOT
from runner.embedded import processes as postmasters
from runner.embedded.account import Account

DEPLOY = ROOT / "deploy"
PROGRAMS = ("etcd", "patroni", "setpriv")
COUNT = 3
PASSWORD = "of-a-test"  # noqa: S105
PATIENCE_SECONDS = 240.0
RETURN_SECONDS = 40.0  # within which a node mostly comes back
OVERLAY = """postgresql:
  parameters:
    unix_socket_directories: '{sockets}'
bootstrap:
  dcs:
    synchronous_mode: {synchronous}
    synchronous_mode_strict: {synchronous}
"""
FETCH = """import sys, urllib.request
body = [one.encode() for one in sys.argv[2:]]
print(urllib.request.urlopen(sys.argv[1], *body, timeout=60 if body else 2).read().decode())"""
NAMES = "select application_name from pg_stat_replication where state = 'streaming'"
STREAMING = """select count(*) from pg_stat_replication
               where state = 'streaming' and application_name ~ '^db'"""
ETCD = ("--heartbeat-interval", "250", "--election-timeout", "2500", "--initial-cluster-token", "r")


def binaries() -> Path | None:
    """The newest PostgreSQL of the system's packages."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/pg_rewind"), key=lambda one: one.parts[-3]
    )
    return found[-1].parent if found else None


def lacking() -> str | None:
    """What is missing, as a reason to skip."""
    if reason := hosts.lacking():
        return reason
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    missing += [] if binaries() else ["PostgreSQL below /usr/lib/postgresql"]
    return f"{', '.join(missing)} not installed (Debian: etcd-server, patroni)" if missing else None


@dataclass
class Node:
    """One host of the three. Its Patroni and its etcd are children of this process; its PostgreSQL is
    Patroni's."""

    name: str
    host: Host
    home: Path
    account: Account
    etcd: subprocess.Popen[bytes] | None = None
    patroni: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def sockets(self) -> Path:
        return self.home / "s"

    def url(self, database: str = "postgres") -> str:
        """By the socket, which no cut meets."""
        return f"postgresql://postgres:{PASSWORD}@/{database}?host={self.sockets}&port=5432"

    def is_primary(self) -> bool:
        """Whether it takes writes, as it says itself."""
        return bool(self.ask("select not pg_is_in_recovery()"))

    def ask(self, query: str) -> Any:
        """One value; None when it does not answer."""
        try:
            with psycopg.connect(self.url(), autocommit=True, connect_timeout=2) as conn:
                row = conn.execute(query).fetchone()
        except psycopg.Error:
            return None
        return row[0] if row else None

    def last_words(self) -> str:
        """The end of Patroni's log."""
        return "\n".join((self.home / "patroni.log").read_text().splitlines()[-15:])

    def members(self) -> list[dict[str, Any]]:
        """The cluster as its Patroni has it from the store; empty when it does not answer."""
        found: dict[str, Any] = json.loads(self.fetch("/cluster") or "{}")
        return list(found.get("members", []))

    def fetch(self, path: str, *body: str) -> str:
        """What its Patroni answers; with a body it is posted."""
        url = f"http://{self.host.address}:8008{path}"
        command = self.host.command(sys.executable, "-c", FETCH, url, *body)
        return subprocess.run(command, capture_output=True, check=False).stdout.decode()

    def prepare(self, synchronous: bool) -> None:
        """Directories, and the example's configuration with what this machine needs beside it."""
        for path in (self.home, self.sockets, self.home / "etcd", self.home / "config"):
            path.mkdir(mode=0o700)
            self.account.own(path)
        config = self.home / "config"
        shutil.copy(DEPLOY / "patroni" / "patroni.yml", config / "0.yml")
        text = OVERLAY.format(sockets=self.sockets, synchronous=str(synchronous).lower())
        (config / "1.yml").write_text(text)
        for path in config.iterdir():
            self.account.own(path)

    def start_etcd(self, peers: Mapping[str, str]) -> None:
        """A member of the store that knows who leads."""
        here = self.host.address
        cluster = ",".join(f"{name}=http://{address}:2380" for name, address in peers.items())
        client = f"http://{here}:2379"
        peer = f"http://{here}:2380"
        self.etcd = self._start(
            "etcd", "--name", self.name, "--data-dir", str(self.home / "etcd"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", cluster, *ETCD,
        )  # fmt: skip

    def start_patroni(self, peers: Mapping[str, str]) -> None:
        """It makes the data, or follows the leader, or goes on."""
        here = self.host.address
        stores = ",".join(f"'{address}:2379'" for address in peers.values())
        env = {
            "PATRONI_NAME": self.name,
            "PATRONI_ETCD3_HOSTS": stores,
            "PATRONI_RESTAPI_LISTEN": f"{here}:8008",
            "PATRONI_RESTAPI_CONNECT_ADDRESS": f"{here}:8008",
            "PATRONI_POSTGRESQL_LISTEN": f"{here}:5432",
            "PATRONI_POSTGRESQL_CONNECT_ADDRESS": f"{here}:5432",
            "PATRONI_POSTGRESQL_DATA_DIR": str(self.data),
            "PATRONI_POSTGRESQL_BIN_DIR": str(binaries()),
            "PATRONI_POSTGRESQL_PGPASS": str(self.home / "pgpass"),
        }
        users = {"SUPERUSER": "postgres", "REPLICATION": "replicator", "REWIND": "rewinder"}
        for role, user in users.items():
            env |= {f"PATRONI_{role}_USERNAME": user, f"PATRONI_{role}_PASSWORD": PASSWORD}
        self.patroni = self._start("patroni", str(self.home / "config"), **env)

    def _start(self, program: str, *arguments: str, **env: str) -> subprocess.Popen[bytes]:
        ids = (f"--reuid={self.account.uid}", f"--regid={self.account.gid}", "--clear-groups")
        path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/bin"
        with (self.home / f"{program}.log").open("ab") as log:
            return subprocess.Popen(
                self.host.command("setpriv", *ids, program, *arguments),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home, umask=0o077,
                env={"PATH": path, "HOME": str(self.home), "LC_ALL": "C.UTF-8", **env},
            )  # fmt: skip

    def kill_postgres(self) -> None:
        """kill -9 of the postmaster; its children see that and end. It is gone when this returns."""
        pid = postmasters.postmaster(self.data)
        if pid is not None:
            processes.send(pid, signal.SIGKILL)
            until(lambda: processes.gone(pid), "the end of a postmaster", PATIENCE_SECONDS)

    def kill_patroni(self) -> None:
        """kill -9; its PostgreSQL goes on without it."""
        if self.patroni is not None:
            self.patroni.kill()
            self.patroni.wait()

    def switch_over(self) -> None:
        """Its Patroni hands the lead to another, and says when that is done."""
        said = self.fetch("/switchover", json.dumps({"leader": self.name}))
        if not said.startswith("Successfully switched over"):
            raise RuntimeError(f"no switchover: {said or self.last_words()}")

    def end(self) -> None:
        """Everything of it."""
        self.kill_patroni()
        if postmasters.postmaster(self.data) is not None:
            processes.send(postmasters.postmaster(self.data) or 0, signal.SIGQUIT)
            postmasters.wait_gone(self.data, 20)
        if self.etcd is not None:
            self.etcd.kill()
            self.etcd.wait()


@dataclass
class Trio:
    """The three nodes."""

    root: Path
    network: Network
    nodes: list[Node]
    synchronous: bool
    renewed: int = 0  # nodes that did not come back by themselves

    @property
    def peers(self) -> dict[str, str]:
        return {node.name: node.host.address for node in self.nodes}

    def start(self) -> None:
        """Until one leads and two follow."""
        for node in self.nodes:
            node.start_etcd(self.peers)
        for node in self.nodes:
            node.start_patroni(self.peers)
        self.whole()

    def leader(self, but: Node | None = None) -> Node | None:
        """Who takes writes; `but`: somebody else than this one."""
        return next((one for one in self.nodes if one is not but and one.is_primary()), None)

    def whole(self) -> Node:
        """Wait until one leads, and two stream from it, one of them synchronous where that is asked. A
        node that does not come back by itself is made anew, as an operator would."""
        end = time.monotonic() + PATIENCE_SECONDS
        renew_at = time.monotonic() + RETURN_SECONDS
        while time.monotonic() < end:
            self._start_again()
            primaries = [one for one in self.nodes if one.is_primary()]
            if len(primaries) == 1 and self._agreed(primaries[0]):
                return primaries[0]
            if len(primaries) == 1 and time.monotonic() > renew_at:
                renew_at = time.monotonic() + RETURN_SECONDS
                self._renew(primaries[0])
            time.sleep(0.3)
        said = "\n".join(f"{node.name}: {node.last_words()}" for node in self.nodes)
        raise TimeoutError(f"the nodes are not whole within {PATIENCE_SECONDS:.0f} s:\n{said}")

    def _start_again(self) -> None:
        """As a service manager does: Patroni ends when it finds no store at its start."""
        for node in self.nodes:
            if node.patroni is not None and node.patroni.poll() is not None:
                node.start_patroni(self.peers)

    def _renew(self, primary: Node) -> None:
        """Copy the leader's data to whoever does not stream."""
        with psycopg.connect(primary.url(), autocommit=True) as conn:
            streaming = {str(row[0]) for row in conn.execute(NAMES)}
        for node in self.nodes:
            if node is not primary and node.name not in streaming:
                self.renewed += 1
                node.fetch("/reinitialize", '{"force": true}')

    def _agreed(self, primary: Node) -> bool:
        """Whether the store says the same: else a strike meets nobody who may take over."""
        streaming = primary.ask(STREAMING)
        if streaming is None or streaming < COUNT - 1:
            return False
        roles = {one["name"]: one["role"] for one in primary.members()}
        followers = [role for name, role in roles.items() if name != primary.name]
        if roles.get(primary.name) != "leader" or len(followers) < COUNT - 1:
            return False
        return "sync_standby" in followers or not self.synchronous


@contextlib.contextmanager
def trio(synchronous: bool) -> Iterator[Trio]:
    """Three nodes that are whole; gone afterwards."""
    with server.place(binaries()) as place, hosts.network() as network:
        nodes = [
            Node(
                f"db{number}", network.add(f"db{number}"), place.root / f"db{number}", place.account
            )
            for number in range(1, COUNT + 1)
        ]
        for node in nodes:
            node.prepare(synchronous)
        made = Trio(place.root, network, nodes, synchronous)
        try:
            made.start()
            yield made
        finally:
            for node in nodes:
                node.end()
