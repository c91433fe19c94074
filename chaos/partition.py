"""`scripts/chaos partition`: hosts on one database; one of them is cut off again and again."""

import argparse
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from psycopg.types.json import Jsonb

from chaos import hosts
from chaos.cluster import Cluster, Session, cluster
from chaos.patience import until
from chaos.witnesses import Judgement, Log, judge

LEASE_SECONDS = 5.0
OPTIONS = (
    *("--lease", f"{LEASE_SECONDS:g}s", "--renew", "800ms", "--grace", "2s"),
    *("--backoff", "200ms:1s"),
)
PATIENCE_SECONDS = 60.0
TASK_SECONDS = 1.5
LATE_SHARE = 0.04  # longer than a lease, so that one is taken while its handler may be alive
ALIVE = "select count(*) from pg_stat_activity where pid = %s"
HELD_SECONDS = 5.5  # longer than a cut side's locks may be held
FREED_SECONDS = 3.5  # promised
HOLDER = """select w.host, w.backend_pid from runner.task t join runner.worker w
            on w.worker_id = t.lease_owner join pg_stat_activity a on a.pid = w.backend_pid
            where t.task_id = %s and a.state = 'idle in transaction'"""


@dataclass
class Result:
    """`freed_seconds`: for each cut that lasted, how long the cut side's transactions stayed open."""

    judgement: Judgement
    cut_seconds: list[float] = field(default_factory=list)
    freed_seconds: list[float] = field(default_factory=list)


class Partition:
    """Cuts and heals while tasks that hold transactions open are at work everywhere."""

    def __init__(self, made: Cluster, conn: Session, seed: int) -> None:
        self.made = made
        self.rng = random.Random(seed)
        self.conn = conn
        self.log = Log(made.directory / "log")
        self.added: list[int] = []
        self.cuts: list[float] = []
        self.freed: list[float] = []

    def run(self, leases: list[float]) -> Result:
        """One cut for each of these, so many leases long; then until everything is done."""
        self.made.start()
        for length in leases:
            self.feed()
            self.cut(length * LEASE_SECONDS)
        until(lambda: self._count("select count(*) from runner.task") == 0, "all done")
        self.log.follow()
        judged = judge(self.conn, self.added, [], self.log, [])
        return Result(judged, self.cuts, self.freed)

    def feed(self) -> None:
        """Enough for everybody to be busy."""
        waiting = self._count("select count(*) from runner.task")
        for _ in range(max(0, 6 * len(self.made.runners) - waiting)):
            if self.rng.random() < LATE_SHARE:
                self._add("late", LEASE_SECONDS * 1.2)
            else:
                self._add("slow", self.rng.uniform(0.2, TASK_SECONDS))

    def _add(self, kind: str, seconds: float) -> int:
        insert = "insert into runner.task (task_type, params) values (%s, %s) returning task_id"
        row = self.conn.execute(insert, [kind, Jsonb({"seconds": seconds})]).fetchone()
        assert row is not None
        self.added.append(int(str(row[0])))
        return self.added[-1]

    def cut(self, seconds: float) -> None:
        """Cut off whoever has claimed a task with a transaction open, and see when the server gives
        that transaction up."""
        task = self._add("slow", HELD_SECONDS)
        until(lambda: self._holder(task) is not None, "a transaction to cut off")
        name, backend = self._holder(task) or ("", 0)
        host = next(one.host for one in self.made.runners if one.host and one.host.name == name)
        host.cut()
        begun = time.monotonic()
        freed = None
        while (now := time.monotonic()) < begun + seconds:
            if freed is None and not self._count(ALIVE, backend):
                freed = now - begun
            self.feed()
            time.sleep(0.02)
        host.heal()
        self.cuts.append(seconds)
        if freed is not None:
            self.freed.append(freed)
        elif seconds > FREED_SECONDS:
            self.freed.append(float("inf"))

    def _holder(self, task: int) -> tuple[str, int] | None:
        row = self.conn.execute(HOLDER, [task]).fetchone()
        return None if row is None else (str(row[0]), int(str(row[1])))

    def _count(self, query: str, *values: object) -> int:
        row = self.conn.execute(query, values or None).fetchone()
        assert row is not None
        return int(str(row[0]))


def partition(
    leases: list[float], seed: int, *, count: int = 2, procs: int = 2, binaries: Path | None = None
) -> Result:
    """So many hosts, and one cut of a host for each of `leases`."""
    options = ("--procs", str(procs), *OPTIONS)
    with cluster(count, options, binaries=binaries) as made, made.connect() as conn:
        return Partition(made, conn, seed).run(leases)


def main() -> int:
    """0: no overlap, and everything done once."""
    parser = argparse.ArgumentParser(prog="scripts/chaos partition", description=__doc__)
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if reason := hosts.lacking():
        sys.stderr.write(f"{reason}\n")
        return 2
    rng = random.Random(options.seed)
    leases = [rng.uniform(0.5, 3) for _ in range(options.cuts)]
    result = partition(leases, options.seed, count=options.hosts)
    judged = result.judgement
    sys.stdout.write(
        f"{len(result.cut_seconds)} cuts of {min(result.cut_seconds):.1f} to"
        f" {max(result.cut_seconds):.1f} s; lease {LEASE_SECONDS:g} s, {options.hosts} hosts\n"
        f"locks freed after {min(result.freed_seconds):.1f} to {max(result.freed_seconds):.1f} s"
        f" ({len(result.freed_seconds)} cuts that lasted long enough to see)\n"
        f"{judged.acknowledged} tasks, {judged.completed} completed in {judged.starts} attempts:"
        f" lost {len(judged.lost)}, doubled {len(judged.doubled)},"
        f" overlaps {len(judged.overlaps)}\n"
    )
    return 1 if judged.violations or max(result.freed_seconds) > FREED_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
