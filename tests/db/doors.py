"""Every kind of connection that people enqueue with, behind one shape, so that one test serves all."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row, namedtuple_row

import runner

Opening = Callable[[str, ExitStack, bool], "Door"]


@dataclass
class Door:
    """One open connection in a transaction of its own, unless it is in autocommit."""

    conn: Any
    execute: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]
    run: Callable[[Any], Any] | None = None  # of an event loop

    def enqueue(self, *args: Any, **options: Any) -> Any:
        if self.run is None:
            return runner.enqueue(self.conn, *args, **options)
        return self.run(runner.aenqueue(self.conn, *args, **options))

    def enqueue_many(self, *args: Any, **options: Any) -> Any:
        if self.run is None:
            return runner.enqueue_many(self.conn, *args, **options)
        return self.run(runner.aenqueue_many(self.conn, *args, **options))


@contextmanager
def opened(name: str, url: str, *, autocommit: bool = False) -> Iterator[Door]:
    """Open a connection of this kind; closed at the end, its transaction rolled back."""
    with ExitStack() as stack:
        yield DOORS[name](url, stack, autocommit)


def _psycopg(url: str, stack: ExitStack, autocommit: bool, **options: Any) -> Door:
    conn = psycopg.connect(url, autocommit=autocommit, **options)
    stack.callback(conn.close)
    return Door(conn, conn.execute, conn.commit, conn.rollback)


def _psycopg_dict(url: str, stack: ExitStack, autocommit: bool) -> Door:
    return _psycopg(url, stack, autocommit, row_factory=dict_row)


def _psycopg_raw(url: str, stack: ExitStack, autocommit: bool) -> Door:
    return _psycopg(url, stack, autocommit, cursor_factory=psycopg.RawCursor)


def _psycopg_client(url: str, stack: ExitStack, autocommit: bool) -> Door:
    return _psycopg(url, stack, autocommit, cursor_factory=psycopg.ClientCursor)


def _psycopg_cursor(url: str, stack: ExitStack, autocommit: bool) -> Door:
    door = _psycopg(url, stack, autocommit)
    door.conn = door.conn.cursor(row_factory=namedtuple_row)
    return door


def _psycopg_async(url: str, stack: ExitStack, autocommit: bool, cursor: bool = False) -> Door:
    run = stack.enter_context(asyncio.Runner()).run
    conn = run(psycopg.AsyncConnection.connect(url, autocommit=autocommit))
    stack.callback(lambda: run(conn.close()))
    given = conn.cursor(row_factory=dict_row) if cursor else conn
    return Door(
        given,
        lambda text: run(conn.execute(text)),
        lambda: run(conn.commit()),
        lambda: run(conn.rollback()),
        run,
    )


def _psycopg_async_cursor(url: str, stack: ExitStack, autocommit: bool) -> Door:
    return _psycopg_async(url, stack, autocommit, cursor=True)


def _psycopg2(url: str, stack: ExitStack, autocommit: bool, cursor: bool = False) -> Door:
    import psycopg2
    import psycopg2.extras

    conn = psycopg2.connect(url, cursor_factory=psycopg2.extras.RealDictCursor)
    stack.callback(conn.close)
    conn.autocommit = autocommit

    def execute(text: str) -> None:
        with conn.cursor() as own:
            own.execute(text)

    return Door(conn.cursor() if cursor else conn, execute, conn.commit, conn.rollback)


def _psycopg2_cursor(url: str, stack: ExitStack, autocommit: bool) -> Door:
    return _psycopg2(url, stack, autocommit, cursor=True)


def _sqlalchemy(
    url: str, stack: ExitStack, autocommit: bool, driver: str = "psycopg", session: bool = False
) -> Door:
    import psycopg2
    import sqlalchemy.orm

    connect = {"psycopg": psycopg.connect, "psycopg2": psycopg2.connect}[driver]
    engine = sqlalchemy.create_engine(f"postgresql+{driver}://", creator=lambda: connect(url))
    stack.callback(engine.dispose)
    if autocommit:
        engine = engine.execution_options(isolation_level="AUTOCOMMIT")
    conn: Any = sqlalchemy.orm.Session(engine) if session else engine.connect()
    stack.callback(conn.close)
    return Door(conn, lambda text: conn.execute(sqlalchemy.text(text)), conn.commit, conn.rollback)


def _sqlalchemy_psycopg2(url: str, stack: ExitStack, autocommit: bool) -> Door:
    return _sqlalchemy(url, stack, autocommit, "psycopg2")


def _sqlalchemy_session(url: str, stack: ExitStack, autocommit: bool) -> Door:
    return _sqlalchemy(url, stack, autocommit, session=True)


def _sqlalchemy_async(
    url: str, stack: ExitStack, autocommit: bool, driver: str = "asyncpg", session: bool = False
) -> Door:
    import asyncpg
    import sqlalchemy
    import sqlalchemy.ext.asyncio as aio

    async def connect() -> Any:
        if driver == "asyncpg":
            return await asyncpg.connect(url)
        return await psycopg.AsyncConnection.connect(url)

    run = stack.enter_context(asyncio.Runner()).run
    engine = aio.create_async_engine(f"postgresql+{driver}://", async_creator=connect)
    stack.callback(lambda: run(engine.dispose()))
    if autocommit:
        engine = engine.execution_options(isolation_level="AUTOCOMMIT")
    conn: Any = aio.AsyncSession(engine) if session else run(_awaited(engine.connect()))
    stack.callback(lambda: run(conn.close()))
    return Door(
        conn,
        lambda text: run(conn.execute(sqlalchemy.text(text))),
        lambda: run(conn.commit()),
        lambda: run(conn.rollback()),
        run,
    )


async def _awaited(thing: Any) -> Any:
    return await thing


def _sqlalchemy_async_session(url: str, stack: ExitStack, autocommit: bool) -> Door:
    return _sqlalchemy_async(url, stack, autocommit, session=True)


def _sqlalchemy_async_psycopg(url: str, stack: ExitStack, autocommit: bool) -> Door:
    return _sqlalchemy_async(url, stack, autocommit, "psycopg")


def django_connection(url: str, stack: ExitStack) -> Any:
    """A connection of Django's own making, without a project."""
    from django.apps import apps
    from django.conf import settings
    from django.db.utils import ConnectionHandler

    if not settings.configured:
        settings.configure(USE_TZ=True)
        apps.populate([])
    parts = conninfo_to_dict(url)
    conn = ConnectionHandler(
        {
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": parts["dbname"],
                "USER": parts["user"],
                "HOST": parts["host"],
                "PORT": parts["port"],
                "OPTIONS": {"options": parts.get("options", "")},
            }
        }
    )["default"]
    stack.callback(conn.close)
    return conn


def _django(url: str, stack: ExitStack, autocommit: bool) -> Door:
    conn = django_connection(url, stack)
    conn.set_autocommit(autocommit)

    def execute(text: str) -> None:
        with conn.cursor() as cursor:
            cursor.execute(text)

    return Door(conn, execute, conn.commit, conn.rollback)


def _asyncpg(url: str, stack: ExitStack, autocommit: bool) -> Door:
    import asyncpg

    run = stack.enter_context(asyncio.Runner()).run
    conn = run(asyncpg.connect(url))
    stack.callback(lambda: run(conn.close()))

    def begin() -> None:
        if not autocommit:
            run(conn.execute("begin"))

    def end(how: str) -> None:
        run(conn.execute(how))
        begin()

    begin()
    return Door(
        conn,
        lambda text: run(conn.execute(text)),
        lambda: end("commit"),
        lambda: end("rollback"),
        run,
    )


DOORS: dict[str, Opening] = {
    "psycopg": _psycopg,
    "psycopg dict_row": _psycopg_dict,
    "psycopg RawCursor": _psycopg_raw,
    "psycopg ClientCursor": _psycopg_client,
    "psycopg cursor": _psycopg_cursor,
    "psycopg async": _psycopg_async,
    "psycopg async cursor": _psycopg_async_cursor,
    "psycopg2": _psycopg2,
    "psycopg2 cursor": _psycopg2_cursor,
    "SQLAlchemy Connection": _sqlalchemy,
    "SQLAlchemy Connection, psycopg2": _sqlalchemy_psycopg2,
    "SQLAlchemy Session": _sqlalchemy_session,
    "SQLAlchemy AsyncConnection": _sqlalchemy_async,
    "SQLAlchemy AsyncSession": _sqlalchemy_async_session,
    "SQLAlchemy AsyncConnection, psycopg": _sqlalchemy_async_psycopg,
    "Django": _django,
    "asyncpg": _asyncpg,
}
