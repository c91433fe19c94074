"""What `doctor` finds in a live database: facts read here, judged in `operating.diagnosis`."""

import time
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.rows import class_row

from ..operating.diagnosis import Finding, queue, server, tables, warn
from . import overview, schema
from .bounded import is_pooled
from .sql import query, value

Connection = psycopg.Connection[Any]
Fact = TypeVar("Fact")
SHAPE = "shape.txt"


class Plan(NamedTuple):
    """A fleet that somebody means to start."""

    procs: int
    helpers: int


def examine(conn: Connection, plan: Plan) -> Iterator[Finding]:
    """Every check in turn; one that may not be made is a finding itself. In autocommit mode."""
    for check in (_surroundings, _connections, _rights, _schema, _tables, _snapshots, _queue):
        try:
            yield from check(conn, plan)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable) as error:
            name = check.__name__.removeprefix("_")
            text = error.diag.message_primary or str(error)
            yield warn(
                name, f"not looked at: {text}", "run this as the owner, or see deploy/roles.sql"
            )


def connections(conn: Connection, helpers: int) -> server.Connections:
    """How many connections there are, and who wants them; each fleet `helpers` beside its workers."""
    return _one(conn, "doctor_connections", server.Connections, {"helpers": helpers})


def shipped_shape() -> dict[str, str]:
    """The schema of this program, a line for each thing in it; made by `python -m tests.shape`."""
    text = (resources.files(__package__) / SHAPE).read_text("utf-8")
    return dict(line.split("\t") for line in text.splitlines())


def shape(conn: Connection) -> dict[str, str]:
    """The schema of this database, in the same form."""
    with conn.transaction():
        conn.execute(query("doctor_names"))
        return dict(conn.execute(query("doctor_shape")).fetchall())


def _surroundings(conn: Connection, plan: Plan) -> Iterator[Finding]:
    before = time.time()
    facts = _one(conn, "doctor_server", server.Server)
    after = time.time()
    yield server.version(facts)
    yield server.writable(facts)
    yield server.durable(facts)
    yield server.clock(facts, (before + after) / 2, (after - before) / 2)
    yield server.pooler(facts, conn.info.backend_pid, is_pooled(conn))


def _connections(conn: Connection, plan: Plan) -> Iterator[Finding]:
    yield server.connections(connections(conn, plan.helpers), plan.procs, plan.helpers)


def _rights(conn: Connection, plan: Plan) -> Iterator[Finding]:
    yield server.rights(conn.info.user, _all(conn, "doctor_rights", server.Right))


def _schema(conn: Connection, plan: Plan) -> Iterator[Finding]:
    yield tables.shape(shipped_shape(), shape(conn), schema.version(conn))


def _tables(conn: Connection, plan: Plan) -> Iterator[Finding]:
    found = _all(conn, "doctor_tables", tables.Table)
    yield tables.stored(found)
    yield tables.clean(found, _one(conn, "doctor_server", server.Server).autovacuum)


def _snapshots(conn: Connection, plan: Plan) -> Iterator[Finding]:
    yield tables.snapshots(_all(conn, "doctor_snapshots", tables.Holder))
    hidden = server.hidden(value(conn, "doctor_hidden_sessions") or 0)
    if hidden is not None:
        yield hidden


def _queue(conn: Connection, plan: Plan) -> Iterator[Finding]:
    yield queue.rows(_all(conn, "doctor_rows", queue.Broken))
    yield queue.leases(_one(conn, "doctor_leases", queue.LeaseFacts))
    yield queue.ids(_one(conn, "doctor_ids", queue.Ids))
    work = _one(conn, "doctor_work", queue.Work)
    yield queue.work(work, overview.served_queues(conn))
    yield queue.pauses(_all(conn, "doctor_pauses", queue.Pause))
    yield queue.dead(work)


def _all(
    conn: Connection, name: str, kind: Callable[..., Fact], values: dict[str, Any] | None = None
) -> list[Fact]:
    with conn.cursor(row_factory=class_row(kind)) as cursor:  # type: ignore[arg-type]
        return cursor.execute(query(name), values).fetchall()


def _one(
    conn: Connection, name: str, kind: Callable[..., Fact], values: dict[str, Any] | None = None
) -> Fact:
    return _all(conn, name, kind, values)[0]
