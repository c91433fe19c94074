"""`scripts/hosts cost`: statements and bytes of WAL, of idle hosts and of a task, by number of hosts.

They are counts of the server (pg_stat_statements, pg_current_wal_insert_lsn), not speeds. Nothing else
uses the database: no checkpoint and no autovacuum on the way, and what this program asks does not count.
"""

import argparse
import sys
import time
from dataclasses import dataclass

import psycopg

from chaos import hosts
from chaos.cluster import DATABASE, Session
from chaos.scale.ground import Ground, ground

SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track_planning": "off",
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "max_wal_size": "16GB",
}
NUMBERS = (1, 2, 4, 8)
LEFT = "select count(*) from runner.task"
SETTLE_SECONDS = 15.0  # after which idle workers poll at their slowest
COUNTS = """with ours as (
                select calls, shared_blks_hit + shared_blks_read as buffers,
                       query ~ 'greatest.t[.]fence' as claims
                from pg_stat_statements s join pg_database d on d.oid = s.dbid
                where d.datname = %s and query <> %s)
            select coalesce(sum(calls), 0)::bigint as statements,
                   coalesce(sum(calls) filter (where claims), 0)::bigint as claims,
                   coalesce(sum(buffers) filter (where claims), 0)::bigint as buffers,
                   (pg_current_wal_insert_lsn() - '0/0')::bigint as wal
            from ours"""
OFTEN = """select calls, left(regexp_replace(query, '\\s+', ' ', 'g'), 90) from pg_stat_statements s
           join pg_database d on d.oid = s.dbid where d.datname = %s and query <> %s
           order by calls desc limit %s"""


@dataclass(frozen=True)
class Counts:
    """What the server has counted."""

    statements: int
    claims: int
    buffers: int
    wal: int

    def __sub__(self, other: "Counts") -> "Counts":
        mine, theirs = vars(self), vars(other)
        return Counts(**{name: mine[name] - theirs[name] for name in mine})


@dataclass(frozen=True)
class Cost:
    """Of so many hosts: while idle, a second; at work, a task."""

    hosts: int
    idle_statements: float
    idle_wal: float
    task_statements: float
    task_wal: float
    tasks_a_claim: float
    buffers_a_claim: float
    connections: int
    often: tuple[tuple[int, str], ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            f"{self.hosts}",
            f"{self.connections}",
            f"{self.idle_statements:.2f}",
            f"{self.idle_wal:.0f}",
            f"{self.task_statements:.2f}",
            f"{self.task_wal:.0f}",
            f"{self.tasks_a_claim:.1f}",
            f"{self.buffers_a_claim:.0f}",
        )


HEAD = (
    *("hosts", "connections", "idle: statements/s", "WAL bytes/s"),
    *("a task: statements", "WAL bytes", "tasks a claim", "buffers a claim"),
)


def cost(count: int, procs: int, tasks: int, idle_seconds: float, often: int = 0) -> Cost:
    """Of so many hosts with so many workers each."""
    with ground(count, procs, settings=SETTINGS) as place, _outside(place) as outside:
        place.start()
        time.sleep(SETTLE_SECONDS)
        outside.execute("select pg_stat_statements_reset()")
        before = _counts(outside)
        time.sleep(idle_seconds)
        idle = _counts(outside) - before
        most = outside.execute(OFTEN, [DATABASE, LEFT, often]).fetchall()
        sessions = "select count(*) from pg_stat_activity where datname = %s and pid <> %s"
        connections = place.count(sessions, DATABASE, place.conn.info.backend_pid)
        work = _work(place, outside, tasks)
    return Cost(
        count,
        idle.statements / idle_seconds,
        idle.wal / idle_seconds,
        work.statements / tasks,
        work.wal / tasks,
        tasks / max(1, work.claims),
        work.buffers / max(1, work.claims),
        connections,
        tuple((int(calls), str(query)) for calls, query in most),
    )


def _outside(place: Ground) -> Session:
    """A session of another database: what is asked there is not counted."""
    conn = psycopg.connect(place.made.server.url("postgres"), autocommit=True)
    conn.execute("create extension pg_stat_statements")
    return conn


def _work(place: Ground, outside: Session, tasks: int) -> Counts:
    before = _counts(outside)
    place.add("quick", tasks)
    while place.count(LEFT):
        time.sleep(0.2)
    return _counts(outside) - before


def _counts(outside: Session) -> Counts:
    with outside.cursor(row_factory=psycopg.rows.class_row(Counts)) as cursor:
        found = cursor.execute(COUNTS, [DATABASE, LEFT]).fetchone()
    assert found is not None
    return found


def main() -> int:
    """0: a table was printed; 2: there can be no hosts here."""
    parser = argparse.ArgumentParser(prog="scripts/hosts cost", description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=NUMBERS)
    parser.add_argument("--procs", type=int, default=8)
    parser.add_argument("--tasks", type=int, default=8000)
    parser.add_argument("--idle", type=float, default=30.0, help="seconds to count for")
    parser.add_argument(
        "--often", type=int, default=0, help="and the most frequent idle statements"
    )
    options = parser.parse_args()
    if reason := hosts.lacking():
        sys.stderr.write(f"{reason}\n")
        return 2
    sys.stdout.write("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|\n")
    for count in options.hosts:
        found = cost(count, options.procs, options.tasks, options.idle, options.often)
        sys.stdout.write("| " + " | ".join(found.cells) + " |\n")
        for calls, query in found.often:
            sys.stdout.write(f"  {calls / options.idle:.2f}/s {query}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
