"""Connections of ours whose own statements are bounded in time, directly and behind a pooler.

Directly the bounds are the session's: they came with the startup options. A pooler in transaction mode
refuses or ignores those, and a session is then whatever server connection is free: so each transaction
of ours begins with the bounds, nothing is prepared, and nothing is left in the session.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import psycopg
from psycopg import generators, pq, sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row

from ..config import LOCK_SECONDS, STATEMENT_SECONDS
from .sql import query

IDLE_SECONDS = 5.0
SERVER_PATIENCE_SECONDS = 2.5  # then the third question, a second later, was the last
GOOD = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)
NOTHING_MORE: Mapping[str, str] = MappingProxyType({})
_BEGIN = b"BEGIN"  # psycopg's, for a transaction without wishes
# What a pooler of an older kind, or one that was not told to ignore them, says to startup options.
_REFUSES_OPTIONS = "unsupported startup parameter"


class InTransaction:
    """What cursors add behind a pooler: a statement of ours by itself gets a transaction with bounds."""

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """psycopg's."""
        connection: Bounded = self._conn  # type: ignore[attr-defined]
        if not connection.is_between_transactions:
            return super().execute(*args, **kwargs)  # type: ignore[misc]
        with connection.transaction():
            return super().execute(*args, **kwargs)  # type: ignore[misc]


class PooledCursor(InTransaction, psycopg.Cursor[Any]):
    """A cursor of ours behind a pooler."""


class Bounded(psycopg.Connection[Any]):
    """A connection in autocommit mode. `pooled`: there is a transaction pooler in between."""

    pooled = False
    ours = True  # the session: what is set and prepared in it is for later, too
    durable: Sequence[bytes] = ()  # what each transaction needs for its commit to wait for the disk
    # Statements that are asked now and then are planned each time: a plan that was made for a few rows
    # reads them all, and a million more may have come since.
    _threshold: int | None = None
    _bounds = b""
    _pooled_cursor: type[psycopg.Cursor[Any]] = PooledCursor

    @classmethod
    def connect(  # type: ignore[override]  # psycopg's takes no more than it names
        cls,
        conninfo: str = "",
        *,
        statement_seconds: float = STATEMENT_SECONDS,
        more: Mapping[str, str] = NOTHING_MORE,
        **kwargs: Any,
    ) -> Self:
        """Connect with bounds in the startup options, or without these where they are refused."""
        parts = conninfo_to_dict(conninfo)
        theirs = str(parts.get("options") or "")
        bounds = settings(statement_seconds)
        ours = _as_options({**bounds, **more})
        kwargs.setdefault("prepare_threshold", cls._threshold)
        with_ours = make_conninfo(conninfo, options=f"{theirs} {ours}".strip())
        try:
            conn = super().connect(with_ours, **kwargs)
        except psycopg.OperationalError as error:
            if _REFUSES_OPTIONS not in str(error) or theirs:
                raise
            conn = super().connect(conninfo, **kwargs)
        try:
            direct, weak = conn._greet()
            if not direct:
                conn._fall_back(bounds, weak)
        except BaseException:
            conn.close()
            raise
        return conn

    def _greet(self) -> tuple[bool, bool]:
        with self.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(query("greet"), prepare=False).fetchone()
        assert row is not None
        return row[0], row[1]

    def _fall_back(self, bounds: Mapping[str, str], weak: bool) -> None:
        """From now on nothing rests on the session."""
        self.pooled, self.ours = True, False
        self.prepare_threshold = None
        self.cursor_factory = self._pooled_cursor
        self.durable = [query("durable_here").as_bytes()] if weak else []
        values = {name: sql.Literal(int(bounds[name])) for name in bounds if "timeout" in name}
        self._bounds = b"; ".join([query("bounds").format(**values).as_bytes(), *self.durable])

    @property
    def is_between_transactions(self) -> bool:
        """Whether a statement sent now would be one by itself."""
        return self._autocommit and self.pgconn.transaction_status == pq.TransactionStatus.IDLE

    def _exec_command(self, command: Any, *args: Any, **kwargs: Any) -> PQGen[Any]:
        if self._bounds and command == _BEGIN:
            yield from self._sent(_BEGIN + b"; " + self._bounds)
            return None
        return (yield from super()._exec_command(command, *args, **kwargs))

    def _sent(self, text: bytes) -> PQGen[None]:
        """A string of statements in one round trip; the first error in it is raised."""
        self.pgconn.send_query(text)
        for result in (yield from generators.execute(self.pgconn)):
            if result.status not in GOOD:
                raise psycopg.errors.error_from_result(result)


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Whether a session is not ours alone."""
    return isinstance(connection, Bounded) and connection.pooled


def settings(statement_seconds: float) -> dict[str, str]:
    """What a session of ours begins with, and returns to at RESET. Times in milliseconds."""
    return {
        "statement_timeout": _ms(statement_seconds),
        "lock_timeout": _ms(LOCK_SECONDS),
        "idle_in_transaction_session_timeout": _ms(IDLE_SECONDS),
        "client_connection_check_interval": _ms(1),
        # The server's side of a cut network: what was locked there is free again after three seconds.
        "tcp_keepalives_idle": "1",
        "tcp_keepalives_interval": "1",
        "tcp_keepalives_count": "3",
        "tcp_user_timeout": _ms(SERVER_PATIENCE_SECONDS),
        "default_transaction_isolation": r"read\ committed",
        "default_transaction_read_only": "off",
        "runner.direct": "on",  # arrives only where no pooler is in between
    }


def _as_options(bounds: Mapping[str, str]) -> str:
    return " ".join(f"-c {name}={value}" for name, value in bounds.items())


def _ms(seconds: float) -> str:
    return str(int(seconds * 1000))
