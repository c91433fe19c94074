"""Which kinds of work wait, and the server's clock, by which those that look find their places."""

from collections.abc import Collection
from typing import Any

import psycopg
from psycopg.rows import scalar_row, tuple_row

from ..clock import now
from ..places import NOBODY_KNOWS, STRATUM_SECONDS, Kind, Places, Snapshot
from .sql import query


def list_kinds(
    conn: psycopg.Connection[Any],
    places: Places | None = None,
    *,
    lap: bool = False,
    to_the_end: bool = False,
    draw: bool = False,
) -> list[Kind]:
    """The kinds that have ready rows: of those in `places` above their marks, and any that are not known
    there. A `lap` goes below the marks, to where late rows may lie or `to_the_end`. With `draw` the
    snapshot is good for raising marks."""
    places = Places() if places is None else places
    met = places.met
    marks = [places.lap_from(kind, to_the_end) if lap else met[kind].mark for kind in met]
    values = _arrays(met) | {"marks": marks, "draw": draw}
    with conn.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(query("kinds"), values, prepare=True).fetchall()
    places.saw(snapshot(*rows[0][:2]))
    return [Kind(*row[2:]) for row in rows if row[2] is not None]


def plan_anew(conn: psycopg.Connection[Any]) -> None:
    """The session forgets its plans, those inside of functions too."""
    conn.execute(query("plan_anew"), prepare=False)


def snapshot(xmin: int, own: int | None) -> Snapshot:
    """What a statement could see, from the numbers that it gives back."""
    return Snapshot(xmin, NOBODY_KNOWS if own is None else own)


def _arrays(kinds: Collection[Kind]) -> dict[str, Any]:
    return {
        "queues": [kind.queue for kind in kinds],
        "types": [kind.task_type for kind in kinds],
        "priorities": [kind.priority for kind in kinds],
    }


class ServerClock:
    """The database's clock, read once and carried on by ours."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        with conn.cursor(row_factory=scalar_row) as cursor:
            found: float = cursor.execute(query("database_seconds")).fetchone() or 0.0
        self._ahead = found - now()

    def stratum(self) -> float:
        """The stratum of the rows that become ready now."""
        return (now() + self._ahead) // STRATUM_SECONDS
