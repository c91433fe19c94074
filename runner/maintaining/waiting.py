"""Which kinds wait, asked for again and again at little cost: from the marks of those known."""

import psycopg

from ..clock import now
from ..places import COST_FACTOR, LAP_SECONDS, Kind, Places
from ..store.kinds import ServerClock, list_kinds

LATE_SECONDS = (
    2.0  # between laps while a transaction is open that may leave something below the marks
)
CHEAP_SECONDS = 0.005


class Waiting:
    """The maintainer's memory of kinds and marks."""

    def __init__(self, procs: int) -> None:
        self._procs = procs
        self._places = Places()
        self._clock: ServerClock | None = None
        self._lapped_at = self._to_the_end_at = float("-inf")
        self._put_off_seconds = 0.0

    def list(self, conn: psycopg.Connection[object]) -> list[Kind]:
        """The kinds that have ready rows now."""
        begun = now()
        self._clock = self._clock or ServerClock(conn)
        every = LATE_SECONDS if self._places.unclean else LAP_SECONDS
        lap = begun - self._lapped_at >= max(every, self._put_off_seconds)
        to_the_end = lap and begun >= self._to_the_end_at
        self._places.begin(self._clock.stratum())
        found = list_kinds(conn, self._places, lap=lap, to_the_end=to_the_end, draw=True)
        if lap:
            self._places.made_lap()
            self._lapped_at = begun
            dear = max(0.0, now() - begun - CHEAP_SECONDS)
            self._put_off_seconds = COST_FACTOR * self._procs * dear
            if to_the_end:
                self._to_the_end_at = begun + LAP_SECONDS if dear else begun
        self._places.listed(found, self._clock.stratum())
        return found
