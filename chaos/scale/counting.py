"""What idle hosts and a task cost the server: statements, bytes of WAL, claims and what they read.

They are counts of the server (pg_stat_statements, pg_current_wal_insert_lsn), not speeds; lease and poll
are those of `runner start`. No checkpoint comes on the way, and what this program asks does not count.
How many sessions stood in a queue for a lock is looked at ten times a second.
"""

import time
from dataclasses import dataclass

import psycopg

from chaos.cluster import DATABASE, Session
from chaos.scale.ground import Ground, ground

SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "checkpoint_timeout": "1h",
    "max_wal_size": "16GB",
}
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
LOOK_SECONDS = 0.1
WAITING = """select count(*) filter (where wait_event_type = 'Lock'), count(*) from pg_stat_activity
             where datname = %s and state = 'active'"""


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
    waiting: float  # share of the active sessions that waited for a lock of the database


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
    waiting = active = 0
    while place.count(LEFT):
        row = outside.execute(WAITING, [DATABASE]).fetchone()
        assert row is not None
        waiting, active = waiting + row[0], active + row[1]
        time.sleep(LOOK_SECONDS)
    done = _counts(outside) - before
    claims = max(1, done.claims)
    return Work(
        done.statements / tasks,
        done.wal / tasks,
        tasks / claims,
        done.buffers / claims,
        waiting / max(1, active),
    )


def _counts(outside: Session) -> Counts:
    with outside.cursor(row_factory=psycopg.rows.class_row(Counts)) as cursor:
        found = cursor.execute(COUNTS, [DATABASE, LEFT, ADDED]).fetchone()
    assert found is not None
    return found
