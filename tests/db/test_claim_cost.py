"""What a claim costs must not grow with what waits: buffers of the real statement, by EXPLAIN."""

import json
from typing import Any

import psycopg
import pytest

from runner.places import Kind, Places
from runner.store.claim import compose_claim
from tests.db.stage import announce, one
from tests.servers import Connection

pytestmark = pytest.mark.db

FEW = 1_000
MANY = [200_000, pytest.param(1_000_000, marks=pytest.mark.full)]


class Backlog:
    """Ready rows and the statement that claims from them."""

    def __init__(self, url: str) -> None:
        self.conn: Connection = psycopg.connect(url, autocommit=True, prepare_threshold=None)
        self.kinds: list[Kind] = []
        self.priorities: dict[str, int] = {}
        self.conn.execute("alter table runner.task set (autovacuum_enabled = off)")

    def fill(
        self, rows: int, task_type: str = "t", queue: str = "default", priority: int = 5
    ) -> None:
        """Rows that all arrived in the last hour, with a place each."""
        self.conn.execute(
            """insert into runner.task (task_type, queue, priority, shuffle)
               select %s, %s, %s,
                      floor(extract(epoch from clock_timestamp()) / 2) - n * 1800.0 / %s + random()
               from generate_series(1, %s) as n""",
            [task_type, queue, priority, max(rows, 1), rows],
        )
        self.know(task_type, queue, priority)

    def know(self, task_type: str, queue: str = "default", priority: int = 5) -> None:
        self.kinds.append(Kind(queue, task_type, priority))

    def cost(self, wanted: int = 1, *, full: bool = False, generic: bool = False) -> int:
        """Buffers of one claim, rolled back. The first makes the caches of the session warm."""
        self.conn.execute("analyze runner.task")
        self.conn.execute("set plan_cache_mode = force_generic_plan")
        worker = announce(self.conn, "t")
        places = Places()
        places.know(self.kinds)
        values = {
            "worker_id": worker,
            "queues": [kind.queue for kind in self.kinds],
            "types": [kind.task_type for kind in self.kinds],
            "priorities": [kind.priority for kind in self.kinds],
            "ats": [place.at for place in places.of.values()],
            "marks": [place.mark for place in places.of.values()],
            "laps": [float("-inf") for _ in self.kinds],
            "most": [5 for _ in self.kinds],
            "wanted": [wanted for _ in self.kinds],
            "done": [],
            "done_fences": [],
            "fair": False,
            "last_lap": 2 if full else 1,
            "failed_before": None,
            "created_before": None,
        }
        custom = psycopg.sql.SQL(compose_claim(self.priorities).decode())
        statement = self.prepare(list(values)) if generic else custom
        query = psycopg.sql.SQL("explain (analyze, buffers, timing off, format json) ") + statement
        costs = []
        for _ in range(10):  # chance decides which kind comes first, and so how many are probed
            with self.conn.transaction(force_rollback=True):
                found = psycopg.ClientCursor(self.conn).execute(query, values).fetchone()
            assert found is not None
            costs.append(_buffers(found[0]))
            assert _rows(found[0]) == min(wanted, self.count())
        return min(costs)

    def prepare(self, names: list[str]) -> Any:
        """The claim as a prepared statement, which EXECUTE runs by its generic plan."""
        text = compose_claim(self.priorities).decode()
        for number, name in enumerate(names, 1):
            text = text.replace(f"%({name})s", f"${number}")
        self.conn.execute("deallocate all")
        self.conn.execute(psycopg.sql.SQL("prepare claim as ") + psycopg.sql.SQL(text))
        values = ", ".join(f"%({name})s" for name in names)
        return psycopg.sql.SQL(f"execute claim ({values})")

    def count(self) -> int:
        """Rows that may be claimed."""
        query = "select count(*) from runner.task t where not exists (select from runner.pause p"
        return int(one(self.conn, query + " where p.task_type = t.task_type)"))


def _buffers(explained: Any) -> int:
    plan = (json.loads(explained) if isinstance(explained, str) else explained)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _rows(explained: Any) -> int:
    plan = (json.loads(explained) if isinstance(explained, str) else explained)[0]["Plan"]
    return int(plan["Actual Rows"])


@pytest.fixture
def backlog(fresh: str) -> Any:
    made = Backlog(fresh)
    yield made
    made.conn.close()


def check(few: int, many: int) -> None:
    """Less than half as much again, and little at all."""
    assert many < 1.5 * few, f"{few} buffers at {FEW} rows, {many} at many"


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("many", MANY)
def test_every_shape_of_a_backlog(backlog: Backlog, many: int, generic: bool) -> None:
    """One class first, and then the shapes that undid other statements, on the same rows."""

    def costs() -> dict[str, int]:
        found = {}
        full_kinds = backlog.kinds
        backlog.kinds = [Kind("default", "t", 5)]
        found["one class"] = backlog.cost(generic=generic)
        found["one class, a full lap"] = backlog.cost(generic=generic, full=True)
        found["fifty at once"] = backlog.cost(50, generic=generic)
        # Three classes: nothing in the first two.
        backlog.priorities = {"first": 1, "second": 2, "t": 9}
        backlog.kinds = [Kind("default", name, 5) for name in ("t", "second", "first")]
        found["the last of three classes"] = backlog.cost(generic=generic)
        backlog.priorities = {}
        # Two queues: one of them is empty, or nearly so.
        backlog.kinds = [Kind("default", "t", 5), Kind("other", "t", 5)]
        found["two queues"] = backlog.cost(generic=generic)
        # A paused type holds it all.
        backlog.conn.execute("insert into runner.pause values (null, 't')")
        backlog.kinds = [Kind("default", "t", 5), Kind("default", "small", 5)]
        found["a paused type"] = backlog.cost(generic=generic)
        backlog.conn.execute("delete from runner.pause")
        backlog.kinds = full_kinds
        return found

    backlog.fill(FEW)
    backlog.fill(10, "small")
    few = costs()
    backlog.fill(many - FEW)
    many_costs = costs()
    for shape, cost in few.items():
        assert many_costs[shape] < 1.5 * cost, f"{shape}: {cost} at {FEW} rows, {many_costs[shape]}"
    assert many_costs["one class"] < 60


def test_twenty_types(backlog: Backlog) -> None:
    names = [f"type {n}" for n in range(20)]
    for name in names:
        backlog.fill(FEW // 20, name)
    few = backlog.cost()
    backlog.fill(100_000, "type 19")
    check(few, backlog.cost())


def test_kinds_are_listed_at_a_price_that_does_not_grow(backlog: Backlog) -> None:
    def cost() -> int:
        backlog.conn.execute("analyze runner.task")
        query = psycopg.sql.SQL("explain (analyze, buffers, timing off, format json) ")
        statement = query + runner_query("kinds")
        nothing_known: dict[str, list[Any]] = {
            name: [] for name in ("queues", "types", "priorities", "marks")
        } | {"draw": False}
        found = [backlog.conn.execute(statement, nothing_known).fetchone() for _ in range(2)][1]
        assert found is not None
        assert _rows(found[0]) == 3
        return _buffers(found[0])

    for name in "abc":
        backlog.fill(FEW // 3, name)
    few = cost()
    backlog.fill(100_000, "b")
    check(few, cost())


def runner_query(name: str) -> Any:
    from runner.store.sql import query

    return query(name)


def test_the_check_would_find_a_sort_of_all_rows(backlog: Backlog) -> None:
    """The plain statement of the comment in claim.sql: it must fail the same measure."""
    plain = """explain (analyze, buffers, timing off, format json)
               select task_id from runner.task where state = 'ready'
               order by case task_type when 't' then 1 else priority end, random()
               limit 1 for update skip locked"""

    def cost() -> int:
        backlog.conn.execute("analyze runner.task")
        found = [backlog.conn.execute(plain).fetchone() for _ in range(2)][1]
        assert found is not None
        return _buffers(found[0])

    backlog.fill(FEW)
    few = cost()
    backlog.fill(20_000)
    with pytest.raises(AssertionError):
        check(few, cost())
