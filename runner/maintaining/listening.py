"""LISTEN, on a connection of its own. What it hears is a hint; polling is the truth."""

import random
from collections.abc import Iterator

import psycopg

from .. import faults
from ..clock import now
from ..store import passes
from ..store.bounded import Bounded
from ..store.connect import connect

AGAIN_FIRST_SECONDS, AGAIN_CAP_SECONDS = 0.2, 5.0
CHECK_SECONDS = 15.0  # a link that has been silent for so long is asked something
ANSWER_SECONDS = 3.0


class Listener:
    """Connects again for ever; deaf meanwhile."""

    def __init__(
        self, dsn: str, rng: random.Random, lifetime_seconds: float, *, wanted: bool
    ) -> None:
        self._lifetime_seconds = lifetime_seconds
        self._expires_at = float("inf")
        self._dsn = dsn
        self._rng = rng
        self._wanted = wanted
        self._conn: psycopg.Connection[object] | None = None
        self._again_at = 0.0
        self._again_seconds = AGAIN_FIRST_SECONDS
        self._heard_at = 0.0
        self._asked_at: float | None = None

    @property
    def fds(self) -> list[int]:
        """What turns readable when there is something to hear."""
        return [] if self._conn is None else [self._conn.fileno()]

    def keep(self) -> bool:
        """Connect where that is due, or see that the link is alive; True when it has just begun to
        listen, and what came meanwhile was not heard."""
        at = now()
        try:
            if self._conn is not None and at >= self._expires_at:
                self._lose()
                self._again_at = at
            if self._conn is not None:
                self._check(self._conn, at)
            elif self._wanted and at >= self._again_at:
                conn: Bounded = connect(self._dsn, "listener")
                if conn.pooled:  # what it would hear were another's notifications, or none
                    conn.close()
                    self._wanted = False
                    return False
                self._conn = conn
                passes.listen(self._conn)
                self._expires_at = at + self._lifetime_seconds
                self._again_seconds = AGAIN_FIRST_SECONDS
                self._heard_at = at
                return True
        except psycopg.Error:
            self._lose()
        return False

    def _check(self, conn: psycopg.Connection[object], at: float) -> None:
        # Asked without waiting for the answer: a link that is dead and not closed would hold up the
        # polls of everybody as well.
        if self._asked_at is not None:
            if at - self._asked_at > ANSWER_SECONDS:
                self._lose()
        elif at - self._heard_at > CHECK_SECONDS:
            conn.pgconn.send_query(b"")
            conn.pgconn.flush()
            self._asked_at = at

    def hear(self) -> Iterator[tuple[str, int]]:
        """The queues that were named, each with a number of tasks; '' is every queue."""
        faults.point("hear")
        self._heard_at = now()
        try:
            self._take_answer()
            yield from self._heard()
        except psycopg.Error:
            self._lose()

    def _heard(self) -> Iterator[tuple[str, int]]:
        # psycopg's `notifies` would wait once more before it gives up: somebody idle is waiting.
        if self._conn is None:
            return
        pgconn = self._conn.pgconn
        pgconn.consume_input()
        while (notification := pgconn.notifies()) is not None:
            count, _, queue = notification.extra.decode("utf-8", "replace").partition(" ")
            yield queue, int(count) if count.isdecimal() else 1

    def _take_answer(self) -> None:
        if self._conn is None or self._asked_at is None:
            return
        self._conn.pgconn.consume_input()
        while not self._conn.pgconn.is_busy():
            if self._conn.pgconn.get_result() is None:
                self._asked_at = None
                break

    def _lose(self) -> None:
        if self._conn is not None:
            self._conn.close()
        self._conn = self._asked_at = None
        self._again_at = now() + self._again_seconds * (0.5 + self._rng.random())
        self._again_seconds = min(AGAIN_CAP_SECONDS, self._again_seconds * 2)
