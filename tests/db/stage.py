"""What the database tests put on the stage: tasks, workers, sessions, and facts to wait for."""

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4

import psycopg
from psycopg import sql
from psycopg.rows import namedtuple_row

from runner.backoff import Backoff
from runner.judge import Judge
from runner.places import Kind, Place, Places
from runner.store.claim import NO_BOUNDS, Claiming, Row
from runner.store.kinds import list_kinds
from runner.store.tx import Tx
from runner.store.workers import Identity, register_worker
from tests.servers import Connection, wait_until

T = TypeVar("T")
INSERT = "insert into effect values (1)"
JUDGE = Judge(Backoff(jitter=0.0), random.Random(1))


def add(db: Connection, task_type: str = "t", count: int = 1, **columns: Any) -> list[int]:
    """Insert tasks in one statement; further columns by name. Their ids."""
    names = ["task_type", *columns]
    query = sql.SQL(
        "insert into runner.task ({}) select {} from generate_series(1, {}) returning task_id"
    )
    values = [sql.Literal(value) for value in (task_type, *columns.values())]
    cursor = db.execute(
        query.format(
            sql.SQL(", ").join(map(sql.Identifier, names)), sql.SQL(", ").join(values), count
        )
    )
    return [found[0] for found in cursor]


def row(db: Connection, task_id: int) -> Any:
    """The task as it is in the table, or None."""
    with db.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute("select * from runner.task where task_id = %s", [task_id]).fetchone()


def one(db: Connection, query: str, *values: Any) -> Any:
    """The first column of the first row."""
    found = db.execute(query, values or None).fetchone()
    return None if found is None else found[0]


def announce(
    conn: psycopg.Connection[Any], *types: str, lease: float = 30.0, **options: Any
) -> UUID:
    """Register a worker; its id."""
    worker_id = options.pop("worker_id", None) or uuid4()
    role = options.pop("role", "worker")
    identity = Identity(worker_id, uuid4(), "host", 1, 0, list(types), None, lease)
    assert register_worker(conn, identity._replace(**options), role)
    return worker_id


def effects(db: Connection) -> int:
    """How many effects of handlers there are for others to see."""
    return int(one(db, "select count(*) from effect"))


def rolled_back(tx: Tx, db: Connection) -> bool:
    """Whether everything so far is in the one transaction, and goes with it."""
    assert tx.begun
    assert tx.open
    seen = effects(db)
    tx.take_back(one_statement=True)
    tx.end(b"ROLLBACK")
    return seen == 0 and effects(db) == 0 and not tx.open


class Claimer:
    """A worker that claims, with its places."""

    def __init__(self, conn: psycopg.Connection[Any], *types: str, **options: Any) -> None:
        self.conn = conn
        self.types = types
        self.priorities = options.pop("priorities", {})
        self.most = dict.fromkeys(types, 5)
        self.worker_id = announce(conn, *types, **options)
        self.places = Places()

    def know(self, *kinds: tuple[str, str, int]) -> "Claimer":
        self.places.know([Kind(*kind) for kind in kinds])
        return self

    def look_around(self) -> "Claimer":
        """Know all kinds that have ready rows and a handler here."""
        self.places.know([kind for kind in list_kinds(self.conn) if kind.task_type in self.types])
        return self

    def claim(self, **options: Any) -> Sequence[Row]:
        bounds = options.pop("bounds", NO_BOUNDS)
        how = {name: options.pop(name) for name in ("done", "sent") if name in options}
        most = options.pop("wanted", 1)
        options["wanted"] = lambda task_type: most
        claiming = Claiming(self.conn, self.worker_id, self.most, self.priorities, bounds)
        return claiming.claim(claiming.compose(self.places, **options), self.places, **how)

    def take(self, **options: Any) -> Row | None:
        """Claim one after a fresh look around."""
        self.look_around()
        rows = self.claim(**options)
        return rows[0] if rows else None

    def place(self, kind: tuple[str, str, int], at: float, mark: float) -> None:
        self.places.of[Kind(*kind)] = Place(at, mark)


def waits_for_lock(db: Connection, pid: int) -> bool:
    """Whether this backend stands in a queue for a lock."""
    return bool(one(db, "select exists (select from pg_locks where pid = %s and not granted)", pid))


class Background(Generic[T]):
    """A call in a thread of its own; `result()` gives what it returned or raises what it raised."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._result: T | None = None
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error

    @property
    def done(self) -> bool:
        return not self.thread.is_alive()

    def result(self) -> T:
        self.thread.join(20)
        assert self.done, "still running"
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


def until_blocked(db: Connection, conn: psycopg.Connection[Any], call: Background[Any]) -> None:
    """Wait until the call's session waits for a lock."""
    pid = conn.info.backend_pid

    def blocked() -> bool:
        assert not call.done, "it did not wait for a lock"
        return waits_for_lock(db, pid)

    wait_until(blocked, why="waiting for a lock")


def consistent(db: Connection) -> bool:
    """What holds at any time: every running row has a fence, and no state is out of bounds."""
    return not one(
        db,
        """select count(*) from runner.task
           where (state = 'running' and (fence = 0 or claimed_at is null or attempt = 0))
              or (max_attempts is not null and attempt > max_attempts)""",
    )
