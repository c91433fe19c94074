"""What enqueueing asks of a connection, for each library that people have one from.

None of them is imported here: a connection's class tells where it comes from, and whoever has one has
imported its library. Nothing here commits; `call` sends one statement, so it is whole in autocommit too.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Protocol

from ..statements import statement

Values = Mapping[str, Any]

COPY_COLUMNS = ("queue", "task_type", "params", "priority", "max_attempts")

_BLOCK = 1 << 18
_PARAMETER = re.compile(r"%\((\w+)\)s")
_POSITIONAL = {"format": "%s", "qmark": "?", "numeric": ":{}", "numeric_dollar": "${}"}
STYLES = ("pyformat", "named", *_POSITIONAL)


def render(text: str, values: Values, style: str) -> tuple[str, Any]:
    """A statement and its parameters in a DB-API paramstyle, or asyncpg's `numeric_dollar`."""
    if style == "pyformat":
        return text, dict(values)
    if style == "named":
        return _PARAMETER.sub(r":\1", text), dict(values)
    if style not in _POSITIONAL:
        raise ValueError(f"style: one of {', '.join(STYLES)}")
    given: list[Any] = []

    def number(found: re.Match[str]) -> str:
        given.append(values[found[1]])
        return _POSITIONAL[style].format(len(given))

    return _PARAMETER.sub(number, text), given


class Driver(Protocol):
    """A way to talk to the database within the caller's own transaction."""

    def call(self, name: str, values: Values) -> Any:
        """Send the named statement; the one value of its answer."""

    def copy(self, data: BinaryIO) -> bool:
        """Send rows in COPY's text format; False, and nothing sent, where there is no COPY."""


class AsyncDriver(Protocol):
    """The same for connections of asyncio."""

    async def call(self, name: str, values: Values) -> Any:
        """Send the named statement; the one value of its answer."""

    async def copy(self, data: BinaryIO) -> bool:
        """Send rows in COPY's text format; False, and nothing sent, where there is no COPY."""


class Psycopg:
    """psycopg: any connection, or the connection of a cursor."""

    def __init__(self, given: Any) -> None:
        self.conn = _connection_of(given)

    def call(self, name: str, values: Values) -> Any:
        with self.conn.cursor(row_factory=_tuple_row()) as cursor:
            cursor.execute(*_for_psycopg(cursor, name, values))
            return cursor.fetchone()[0]

    def copy(self, data: BinaryIO) -> bool:
        if _in_pipeline(self.conn):
            return False
        with self.conn.cursor() as cursor, cursor.copy(statement("enqueue_copy")) as copy:
            while block := data.read(_BLOCK):
                copy.write(block)
        return True


class AsyncPsycopg:
    """psycopg's AsyncConnection or AsyncCursor."""

    def __init__(self, given: Any) -> None:
        self.conn = _connection_of(given)

    async def call(self, name: str, values: Values) -> Any:
        async with self.conn.cursor(row_factory=_tuple_row()) as cursor:
            await cursor.execute(*_for_psycopg(cursor, name, values))
            return (await cursor.fetchone())[0]

    async def copy(self, data: BinaryIO) -> bool:
        if _in_pipeline(self.conn):
            return False
        async with self.conn.cursor() as cursor, cursor.copy(statement("enqueue_copy")) as copy:
            while block := data.read(_BLOCK):
                await copy.write(block)
        return True


def _connection_of(given: Any) -> Any:
    return given if hasattr(given, "cursor") else given.connection


def _tuple_row() -> Any:
    return sys.modules["psycopg"].rows.tuple_row


def _for_psycopg(cursor: Any, name: str, values: Values) -> tuple[str, Any]:
    psycopg = sys.modules["psycopg"]
    raw = isinstance(cursor, psycopg.RawCursor | psycopg.AsyncRawCursor)
    return render(statement(name), values, "numeric_dollar" if raw else "pyformat")


def _in_pipeline(conn: Any) -> bool:
    return bool(conn.pgconn.pipeline_status)


class Psycopg2:
    """psycopg2: a connection, or the connection of a cursor, whatever its cursor_factory."""

    def __init__(self, given: Any) -> None:
        self.conn = _connection_of(given)

    def _cursor(self) -> Any:
        return self.conn.cursor(cursor_factory=sys.modules["psycopg2"].extensions.cursor)

    def call(self, name: str, values: Values) -> Any:
        with self._cursor() as cursor:
            cursor.execute(statement(name), values)
            return cursor.fetchone()[0]

    def copy(self, data: BinaryIO) -> bool:
        with self._cursor() as cursor:
            cursor.copy_expert(statement("enqueue_copy"), data)
        return True


class Django:
    """Django's connection (`django.db.connection`, `connections[...]`), or a cursor of it."""

    def __init__(self, given: Any) -> None:
        self.conn = given.db if hasattr(given, "db") else given
        if self.conn.vendor != "postgresql":
            raise TypeError(f"the connection is to {self.conn.vendor}, not to PostgreSQL")

    def call(self, name: str, values: Values) -> Any:
        with self.conn.cursor() as cursor:
            cursor.execute(statement(name), dict(values))
            return cursor.fetchone()[0]

    def copy(self, data: BinaryIO) -> bool:
        return False


class SQLAlchemy:
    """SQLAlchemy: Connection, Session, scoped_session."""

    # Not through the driver's own connection: SQLAlchemy would not know that a transaction has begun,
    # and its commit() would leave it open.

    def __init__(self, given: Any) -> None:
        self.conn = given

    def call(self, name: str, values: Values) -> Any:
        return self.conn.execute(*_for_sqlalchemy(name, values)).scalar()

    def copy(self, data: BinaryIO) -> bool:
        return False


class AsyncSQLAlchemy:
    """SQLAlchemy: AsyncConnection, AsyncSession."""

    def __init__(self, given: Any) -> None:
        self.conn = given

    async def call(self, name: str, values: Values) -> Any:
        return (await self.conn.execute(*_for_sqlalchemy(name, values))).scalar()

    async def copy(self, data: BinaryIO) -> bool:
        return False


def _for_sqlalchemy(name: str, values: Values) -> tuple[Any, Any]:
    text, given = render(statement(name), values, "named")
    return sys.modules["sqlalchemy"].text(text), given


class Asyncpg:
    """asyncpg: a connection, from a pool or not."""

    def __init__(self, given: Any) -> None:
        self.conn = given

    async def call(self, name: str, values: Values) -> Any:
        text, given = render(statement(name), values, "numeric_dollar")
        return await self.conn.fetchval(text, *given)

    async def copy(self, data: BinaryIO) -> bool:
        await self.conn.copy_to_table(
            "task", schema_name="runner", columns=COPY_COLUMNS, source=data,
            format="text", encoding="UTF8",
        )  # fmt: skip
        return True


_SYNC: dict[str, Callable[[Any], Driver]] = {
    "psycopg": Psycopg,
    "psycopg2": Psycopg2,
    "sqlalchemy": SQLAlchemy,
    "django": Django,
}


def sync_driver(conn: Any) -> Driver:
    """The driver for a connection; TypeError when it is none that we know."""
    library = _library_of(conn)
    if library == "asyncpg" or _is_async(conn, library):
        raise TypeError("this is a connection of asyncio: await runner.aenqueue")
    return _SYNC[library](conn)


def async_driver(conn: Any) -> AsyncDriver:
    """The driver for a connection of asyncio; TypeError when it is none that we know."""
    library = _library_of(conn)
    if library == "asyncpg":
        return Asyncpg(conn)
    if not _is_async(conn, library):
        raise TypeError("this is no connection of asyncio: use runner.enqueue")
    return AsyncPsycopg(conn) if library == "psycopg" else AsyncSQLAlchemy(conn)


# What a connection of each library has; pools, engines and the like have not.
_NEEDED = {
    "psycopg": "connection cursor",
    "psycopg2": "connection cursor",
    "sqlalchemy": "execute",
    "django": "vendor db",
    "asyncpg": "copy_to_table",
}


def _library_of(conn: Any) -> str:
    for cls in type(conn).__mro__:
        library = cls.__module__.partition(".")[0]
        if library in _NEEDED:
            if any(hasattr(conn, name) for name in _NEEDED[library].split()):
                return library
            break
    raise TypeError(
        f"{type(conn).__module__}.{type(conn).__qualname__} is no connection that runner knows:"
        " psycopg, psycopg2, SQLAlchemy, Django, asyncpg; for others there is runner.enqueue_sql"
    )


def _is_async(conn: Any, library: str) -> bool:
    if library == "psycopg":
        return inspect.iscoroutinefunction(getattr(_connection_of(conn), "execute", None))
    return library == "sqlalchemy" and inspect.iscoroutinefunction(conn.execute)
