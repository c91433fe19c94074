"""Fleets on hosts of their own against one database, on a network that can be cut."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from chaos import hosts, server, witnesses
from chaos.hosts import Host, Network
from chaos.runners import Runner
from chaos.server import Place, Server

Session = psycopg.Connection[tuple[Any, ...]]
DATABASE = "cluster"


@dataclass
class Cluster:
    """A database host, and so many hosts with a fleet each; none is started yet."""

    network: Network
    place: Place
    server: Server
    runners: list[Runner]
    name: str  # of the directory that the handlers of this database write to

    @property
    def directory(self) -> Path:
        return self.place.root / self.name

    def connect(self) -> Session:
        """By the socket, past the network."""
        return psycopg.connect(self.server.url(DATABASE), autocommit=True)

    def inhabit(self, hosts: Sequence[Host], options: Sequence[str]) -> None:
        """A fleet more on each of these hosts."""
        url = self.server.remote_url(DATABASE)
        for host in hosts:
            self.runners.append(Runner(host.name, url, self.directory, tuple(options), host=host))

    def start(self) -> None:
        """Every fleet."""
        for runner in self.runners:
            runner.start()

    def stop(self) -> None:
        """Every fleet, at once and gracefully."""
        living = [runner for runner in self.runners if runner.alive]
        for runner in living:
            if runner.process is not None:
                runner.process.terminate()
        for runner in living:
            runner.stop()


@contextlib.contextmanager
def cluster(
    count: int, options: Sequence[str], *, binaries: Path | None = None, **settings: str
) -> Iterator[Cluster]:
    """Everything is ended and thrown away afterwards, whatever became of it."""
    with server.place(binaries) as place, hosts.network() as network:
        made = founded(network, place, "main", **settings)
        made.inhabit([network.add(f"h{number}") for number in range(count)], options)
        try:
            yield made
        finally:
            for runner in made.runners:
                if runner.host is not None and not runner.host.connected:
                    runner.host.heal()
            made.stop()


def founded(network: Network, place: Place, name: str, **settings: str) -> Cluster:
    """A database on a host of its own; fleets come later."""
    db = network.add(f"db-{name}")
    main = place.make(name, address=db.address, prefix=db.command(), **settings)
    main.initialise()
    main.start()
    main.create(DATABASE)
    witnesses.prepare(main.url(DATABASE))
    made = Cluster(network, place, main, [], f"witnesses-{name}")
    made.directory.mkdir(mode=0o700)
    return made
