"""What a fleet's statements cost the server: calls, rows, buffers, time.

By pg_stat_statements, which counts only sessions that ask for it: the fleet's. Where it is not loaded,
pg_stat_database tells the sum of all sessions, the bench's few statements included, and names none.
"""

import time
from dataclasses import dataclass, replace

from bench.stage import Connection

BY_STATEMENT = """
select query, calls, rows, shared_blks_hit + shared_blks_read, total_exec_time
from pg_stat_statements
where dbid = (select oid from pg_database where datname = current_database())"""
BY_DATABASE = """
select 'all', xact_commit + xact_rollback, 0, blks_hit + blks_read, 0.0
from pg_stat_database where datname = current_database()"""
FLUSH_SECONDS = 1.5  # until sessions have told pg_stat_database what they did


@dataclass(frozen=True)
class Cost:
    """Of one statement, or of several together."""

    query: str
    calls: int
    rows: int
    buffers: int
    milliseconds: float

    @property
    def buffers_a_call(self) -> float:
        """Mean of shared buffers hit or read."""
        return self.buffers / self.calls if self.calls else 0.0

    @property
    def is_claim(self) -> bool:
        """Whether this is the statement that takes tasks; by what no other statement has."""
        text = " ".join(self.query.lower().split())
        return "skip locked" in text and "update runner.task" in text and "attempt + " in text


class Meter:
    """Costs between two moments."""

    def __init__(self, conn: Connection, by_statement: bool) -> None:
        self.conn = conn
        self.by_statement = by_statement
        self._before: dict[str, Cost] = {}

    def start(self) -> None:
        """Count from here."""
        self._before = self._read()

    def costs(self) -> list[Cost]:
        """What was used since, the most expensive statement first."""
        found = [_minus(cost, self._before.get(name)) for name, cost in self._read().items()]
        return sorted((cost for cost in found if cost.calls), key=lambda cost: -cost.buffers)

    def _read(self) -> dict[str, Cost]:
        if not self.by_statement:
            time.sleep(FLUSH_SECONDS)
        rows = self.conn.execute(BY_STATEMENT if self.by_statement else BY_DATABASE).fetchall()
        found: dict[str, Cost] = {}
        for row in rows:
            found[row[0]] = _plus(found.get(row[0]), Cost(*row))
        return found


def total(costs: list[Cost]) -> Cost:
    """All of them together."""
    return Cost(
        "all",
        sum(cost.calls for cost in costs),
        sum(cost.rows for cost in costs),
        sum(cost.buffers for cost in costs),
        sum(cost.milliseconds for cost in costs),
    )


def claims(costs: list[Cost]) -> Cost | None:
    """The claims among them; None when statements are not told apart."""
    found = [cost for cost in costs if cost.is_claim]
    return total(found) if found else None


def _plus(one: Cost | None, other: Cost) -> Cost:
    return other if one is None else replace(total([one, other]), query=other.query)


def _minus(after: Cost, before: Cost | None) -> Cost:
    if before is None:
        return after
    return Cost(
        after.query,
        after.calls - before.calls,
        after.rows - before.rows,
        after.buffers - before.buffers,
        after.milliseconds - before.milliseconds,
    )
