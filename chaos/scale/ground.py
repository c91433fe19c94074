"""What the phases share: fleets on hosts, tasks, and the server's view of who did them."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from psycopg.types.json import Jsonb

from chaos.cluster import Cluster, Session, cluster
from chaos.patience import until
from chaos.runners import Runner
from chaos.witnesses import Judgement, Log, judge

LEASE_SECONDS = 5.0
OPTIONS = (
    *("--lease", f"{LEASE_SECONDS:g}s", "--renew", "800ms", "--grace", "5s"),
    *("--backoff", "200ms:1s"),
)
PATIENCE_SECONDS = 120.0
NONE: Mapping[str, str] = MappingProxyType({})
HELPERS = 5  # connections of a host beside its workers', at most
WITNESS = """alter table effect add column address inet default inet_client_addr(),
             add column at timestamptz default clock_timestamp()"""
INSERT = """insert into runner.task (task_type, params)
            select %s, %s from generate_series(1, %s) returning task_id"""
SHARES = "select host(address), count(*) from effect where task_id >= %s group by 1"
WORKERS = "select count(*) from runner.worker where role = 'worker'"


@dataclass
class Found:
    """What a phase came to: a line for people, and what was not as promised."""

    said: str
    wrong: list[str] = field(default_factory=list)


@dataclass
class Ground:
    """So many hosts with so many workers each, and everything that was enqueued."""

    made: Cluster
    conn: Session
    procs: int
    log: Log
    added: list[int] = field(default_factory=list)

    @property
    def runners(self) -> list[Runner]:
        return self.made.runners

    def add(self, kind: str, count: int, **params: Any) -> list[int]:
        """Enqueue tasks; their ids."""
        rows = self.conn.execute(INSERT, [kind, Jsonb(params), count]).fetchall()
        ids = [int(row[0]) for row in rows]
        self.added += ids
        return ids

    def count(self, query: str, *values: object) -> int:
        """The number that a query gives."""
        row = self.conn.execute(query, values or None).fetchone()
        assert row is not None
        return int(row[0])

    def left(self) -> int:
        """Tasks that are not done."""
        return self.count("select count(*) from runner.task")

    def shares(self, first: int) -> dict[str, int]:
        """Effects of tasks from this id on, by host, the hosts without any included."""
        names = {one.host.address: one.name for one in self.runners if one.host}
        seen = {names[address]: count for address, count in self.conn.execute(SHARES, [first])}
        return {name: seen.get(name, 0) for name in names.values()}

    def start(self) -> None:
        """Every fleet, until all of its workers are registered."""
        self.made.start()
        whole = self.procs * len(self.runners)
        self.until(lambda: self.count(WORKERS) >= whole, f"{whole} workers")

    def replace(self, runner: Runner) -> None:
        """Stop a fleet gracefully and start it again."""
        runner.stop(30)
        runner.start()
        here = f"{WORKERS} and host = %s"
        self.until(lambda: self.count(here, runner.name) >= self.procs, "a fleet is back")

    def until(self, fact: Callable[[], bool], why: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for a fact; TimeoutError with its name."""
        until(fact, why, seconds)

    def judge(self) -> Judgement:
        """Of everything since the beginning; tasks that are still to be done are no fault."""
        self.log.follow()
        return judge(self.conn, self.added, [], self.log, [])

    def faults(self) -> list[str]:
        """Lost, doubled, overlapping, or left, each with its count."""
        judged = self.judge()
        kinds = ("lost", "doubled", "undeleted", "overlaps")
        found = {kind: len(getattr(judged, kind)) for kind in kinds}
        found |= {"dead": judged.dead}
        return [f"{count} {kind}" for kind, count in found.items() if count]


@contextlib.contextmanager
def ground(
    hosts: int,
    procs: int,
    binaries: Path | None = None,
    settings: Mapping[str, str] = NONE,
    options: Sequence[str] = OPTIONS,
) -> Iterator[Ground]:
    """Hosts whose fleets are not started yet."""
    options = ("--procs", str(procs), *options)
    given = {"max_connections": str(room(hosts, procs)), **settings}
    with cluster(hosts, options, binaries=binaries, **given) as made, made.connect() as conn:
        yield on(made, conn, procs)


def room(hosts: int, procs: int) -> int:
    """Connections that a server needs for so many fleets, and for us."""
    return hosts * (procs + HELPERS) + 20


def on(made: Cluster, conn: Session, procs: int) -> Ground:
    """The ground of a database whose fleets are not started yet."""
    conn.execute(WITNESS)
    return Ground(made, conn, procs, Log(made.directory / "log"))
