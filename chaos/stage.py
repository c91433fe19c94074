"""Where a campaign takes place: one server, two fleets, and what leads from these to that."""

import contextlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from chaos import clock, disk, hosts, processes, server, witnesses
from chaos.pooler import pooler
from chaos.proxy import Proxy, proxied
from chaos.runners import Runner
from chaos.server import Server
from chaos.witnesses import Log

Session = psycopg.Connection[tuple[Any, ...]]
DATABASE = "campaign"
LEASE_SECONDS = 5.0
BACKOFF_CAP_SECONDS = 2.0
# The data must fit into a small disk, and the WAL that is ready must be used up soon.
SETTINGS = {
    "max_connections": "60",
    "wal_keep_size": "0",
    "min_wal_size": "32MB",
    "max_wal_size": "64MB",
}
POOL = 10  # server connections behind a pooler; each fleet alone would like nine
OPTIONS = (
    *("--lease", f"{LEASE_SECONDS:g}s", "--renew", "800ms", "--grace", "2s"),
    *("--backoff", f"200ms:{BACKOFF_CAP_SECONDS:g}s"),
)


class Missed(Exception):
    """There is nobody just now whom this fault could meet."""


@dataclass
class Stage:
    """Everything a fault can get hold of."""

    server: Server
    directory: Path
    runners: list[Runner]
    log: Log
    lacking: Mapping[str, str]  # of network, disk and clock what cannot be struck here, and why

    @property
    def url(self) -> str:
        """By the socket, past every proxy and network."""
        return self.server.url(DATABASE)

    def connect(self) -> Session:
        """An outsider's session; Missed when the server is away."""
        try:
            return psycopg.connect(self.url, autocommit=True, connect_timeout=2)
        except psycopg.Error as error:
            raise Missed from error

    def runner(self, rng: random.Random, *, proxied: bool = False, hosted: bool = False) -> Runner:
        """A fleet that nothing lasting is at work on; Missed when there is none."""
        fit = [
            one
            for one in self.runners
            if not one.disturbed
            and one.alive
            and (one.proxy is not None or not proxied)
            and (one.host is not None or not hosted)
        ]
        if not fit:
            raise Missed
        return rng.choice(fit)

    def child(self, rng: random.Random, *, worker: bool) -> int:
        """A living child of some fleet, stopped parents included: one that was seen at work, or not."""
        parents = [runner.pid for runner in self.runners if runner.alive]
        children = [pid for parent in parents for pid in processes.children_of(parent)]
        fit = [pid for pid in children if (pid in self.log.workers) == worker]
        if not fit:
            raise Missed
        return rng.choice(fit)

    def is_busy(self, runner: Runner) -> bool:
        """Whether a handler of this fleet has begun and not ended."""
        return not self.log.busy.isdisjoint(processes.children_of(runner.pid))

    @contextlib.contextmanager
    def lasting_on(self, one: Runner | Server) -> Iterator[None]:
        """Nobody else disturbs this fleet, or the server, as a whole meanwhile."""
        one.disturbed = True
        try:
            yield
        finally:
            one.disturbed = False


@contextlib.contextmanager
def stage(
    procs: int = 4, env: dict[str, str] | None = None, *, pooled: bool = False
) -> Iterator[Stage]:
    """Server and fleets at work; everything is ended and thrown away afterwards. `pooled`: both fleets
    reach the server through PgBouncer, and none is on a host of its own."""
    lacking = _lacking(pooled)
    options = ("--procs", str(procs), *OPTIONS)
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(server.place())
        net = stack.enter_context(hosts.network()) if "network" not in lacking else None
        where = net.add("db") if net is not None else None
        main = place.make(
            "main",
            address=where.address if where else None,
            prefix=where.command() if where else (),
            **SETTINGS,
        )
        if "disk" not in lacking:
            main.add_disk()
        if "clock" not in lacking:
            main.add_clock()
        main.initialise()
        main.start()
        main.create(DATABASE)
        witnesses.prepare(main.url(DATABASE))
        directory = place.root / "witnesses"
        directory.mkdir(mode=0o700)
        entrance = main.url(DATABASE)
        if pooled:
            entrance = stack.enter_context(pooler(entrance, size=POOL)).url()
        runners = []
        for number in range(2):
            host = net.add(f"host{number}") if net is not None and number == 1 else None
            proxy: Proxy | None = None
            url = main.remote_url(DATABASE)
            if host is None:
                proxy, url = stack.enter_context(proxied(entrance))
            runners.append(
                Runner(f"runner{number}", url, directory, options, env or {}, host, proxy)
            )
        made = Stage(main, directory, runners, Log(directory / "log"), lacking)
        stack.callback(_end, made)
        for runner in runners:
            runner.start()
        yield made


def _lacking(pooled: bool) -> dict[str, str]:
    reasons = {
        "network": "through a pooler" if pooled else hosts.lacking_iptables(),
        "disk": disk.lacking(),
        "clock": clock.lacking(),
    }
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _end(made: Stage) -> None:
    for runner in made.runners:
        if runner.alive:
            runner.stop()
