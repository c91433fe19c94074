"""`scripts/hosts cost`: statements and bytes of WAL, of idle hosts and of a task, by number of hosts.

They are counts of the server (pg_stat_statements, pg_current_wal_insert_lsn), not speeds; lease and poll
are those of `runner start`. No checkpoint comes on the way, and what this program asks does not count.
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
    "checkpoint_timeout": "1h",
    "max_wal_size": "16GB",
}
NUMBERS = (1, 2, 4, 8)
LEFT = "select count(*) from runner.task"
ADDED = "insert into runner.task (task_type, params)%"
SETTLE_SECONDS = 15.0  # after which idle workers poll at their slowest
COUNTS = """with ours as (
                select calls, shared_blks_hit + shared_blks_read as buffers,
                       query ~ 'greatest.t[.]fence' as claims
                from pg_stat_statements s join pg_database d on d.oid = s.dbid
                where d.datname = %s and query <> %s and query not like %s)
            select coalesce(sum(calls), 0)::bigint as statements,
                   coalesce(sum(calls) filter (where claims), 0)::bigint as claims,
                   coalesce(sum(buffers) filter (where claims), 0)::bigint as buffers,
                   (pg_current_wal_insert_lsn() - '0/0')::bigint as wal
            from ours"""
OFTEN = """select calls, left(regexp_replace(query, '\\s+', ' ', 'g'), 90) from pg_stat_statements s
           join pg_database d on d.oid = s.dbid where d.datname = %s and query <> %s
           order by calls desc limit %s"""
SESSIONS = "select count(*) from pg_stat_activity where datname = %s and pid <> %s"
HEAD = (
    *("hosts x workers", "connections", "idle, a second: statements", "WAL bytes"),
    *("a task with an effect: statements", "WAL bytes", "tasks a claim", "buffers a claim"),
    *("a task without: statements", "WAL bytes", "tasks a claim", "buffers a claim"),
)


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
class Work:
    """A task's part of what was counted while so many were done, their insertion included in WAL."""

    statements: float
    wal: float
    tasks_a_claim: float
    buffers_a_claim: float


@dataclass(frozen=True)
class Cost:
    """Of so many hosts; the idle ones a second."""

    hosts: int
    procs: int
    connections: int
    idle_statements: float
    idle_wal: float
    effect: Work
    nothing: Work
    often: tuple[tuple[float, str], ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        """As in HEAD."""
        parts = [f"{self.hosts} x {self.procs}", f"{self.connections}"]
        parts += [f"{self.idle_statements:.1f}", f"{self.idle_wal:.0f}"]
        for work in (self.effect, self.nothing):
            parts += [f"{work.statements:.1f}", f"{work.wal:.0f}"]
            parts += [f"{work.tasks_a_claim:.1f}", f"{work.buffers_a_claim:.0f}"]
        return tuple(parts)


def cost(count: int, procs: int, tasks: int, idle_seconds: float, often: int = 0) -> Cost:
    """Of so many hosts with so many workers each."""
    with ground(count, procs, settings=SETTINGS, options=()) as place, _outside(place) as outside:
        place.start()
        time.sleep(SETTLE_SECONDS)
        outside.execute("select pg_stat_statements_reset()")
        before = _counts(outside)
        time.sleep(idle_seconds)
        idle = _counts(outside) - before
        most = outside.execute(OFTEN, [DATABASE, LEFT, often]).fetchall()
        return Cost(
            count,
            procs,
            place.count(SESSIONS, DATABASE, place.conn.info.backend_pid),
            idle.statements / idle_seconds,
            idle.wal / idle_seconds,
            _work(place, outside, "quick", tasks),
            _work(place, outside, "outside", tasks),
            tuple((int(calls) / idle_seconds, str(query)) for calls, query in most),
        )


def _outside(place: Ground) -> Session:
    """A session of another database: what is asked there is not counted."""
    conn = psycopg.connect(place.made.server.url("postgres"), autocommit=True)
    conn.execute("create extension pg_stat_statements")
    return conn


def _work(place: Ground, outside: Session, kind: str, tasks: int) -> Work:
    before = _counts(outside)
    place.add(kind, tasks)
    while place.count(LEFT):
        time.sleep(0.2)
    done = _counts(outside) - before
    claims = max(1, done.claims)
    return Work(done.statements / tasks, done.wal / tasks, tasks / claims, done.buffers / claims)


def _counts(outside: Session) -> Counts:
    with outside.cursor(row_factory=psycopg.rows.class_row(Counts)) as cursor:
        found = cursor.execute(COUNTS, [DATABASE, LEFT, ADDED]).fetchone()
    assert found is not None
    return found


def main() -> int:
    """0: a table was printed; 2: there can be no hosts here."""
    parser = argparse.ArgumentParser(prog="scripts/hosts cost", description=__doc__)
    add = parser.add_argument
    add("--hosts", type=int, nargs="+", default=NUMBERS)
    add("--procs", type=int, default=8)
    add("--tasks", type=int, default=8000, help="of each of two kinds (default: 8000)")
    add("--idle", type=float, default=60.0, help="seconds to count for (default: 60)")
    add("--often", type=int, default=0, help="and so many of the most frequent idle statements")
    options = parser.parse_args()
    if reason := hosts.lacking():
        sys.stderr.write(f"{reason}\n")
        return 2
    sys.stdout.write("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|\n")
    for count in options.hosts:
        found = cost(count, options.procs, options.tasks, options.idle, options.often)
        sys.stdout.write("| " + " | ".join(found.cells) + " |\n")
        for rate, query in found.often:
            sys.stdout.write(f"  {rate:.2f}/s {query}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
