"""Which database a command uses, and connections to it."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import DatabaseUnreachable, NoDatabase, RunnerError, UsageError
from ..terminal import is_terminal
from . import problems
from .params import Duration
from .settings import Settings

if TYPE_CHECKING:
    from ..store.connect import Connection

_F = TypeVar("_F", bound=Callable[..., Any])

# These say where the server is or which database is meant; the other PG* only how to connect.
LIBPQ = ("PGSERVICE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER")
QUERY_SECONDS = 60.0  # of a person's own statements; those of a fleet are shorter


def connect_wait(default: str = "5s") -> Callable[[_F], _F]:
    """The option of every verb that connects."""
    return click.option(
        "--connect-wait",
        type=Duration(),
        default=default,
        show_default=True,
        help="How long to try to reach the database.",
    )


@contextlib.contextmanager
def database(settings: Settings, connect_wait_seconds: float) -> Iterator[str]:
    """The URL of the database to use; an embedded one runs, with the schema in it, until the end.

    Cron and systemd set no DATABASE_URL: were the embedded one used there silently, an empty private
    database would be drained for ever. So it has to be asked for, or a person has to be looking on.
    """
    embedded_typed = "embedded" in settings.typed
    if settings.database_url and embedded_typed and "database_url" in settings.typed:
        raise UsageError("--embedded and --database-url exclude each other")
    url = None if embedded_typed and settings.embedded else configured(settings)
    if url is not None:
        try:
            yield url
        except DatabaseUnreachable as error:
            error.hint = error.hint or _hint_of_embedded(url)
            raise
        return
    if not settings.embedded and not is_terminal(sys.stderr):
        raise NoDatabase(hint=_hint_of_embedded())
    with embedded_database(settings, connect_wait_seconds) as url:
        yield url


def _hint_of_embedded(unreachable: str | None = None) -> str | None:
    """The next step where there is an embedded database: with no URL given, or with its own."""
    from .. import embedded

    with contextlib.suppress(RunnerError, OSError):
        seen = embedded.status()
        if unreachable is not None:
            return "runner db start" if seen.url == unreachable and not seen.running else None
        if seen.version is not None:
            first = "" if seen.running else "runner db start; "
            return f'{first}export DATABASE_URL="$(runner db url)"'
    return None


def configured(settings: Settings) -> str | None:
    """The URL that options or variables give; empty where libpq's own variables do."""
    if "database_url" in settings.typed and not settings.database_url:
        raise UsageError("--database-url is empty: of a variable that is not set?")
    if url := settings.database_url or os.environ.get("DATABASE_URL"):
        settings.database_url = url
        return url
    return "" if any(os.environ.get(name) for name in LIBPQ) else None


@contextlib.contextmanager
def embedded_database(settings: Settings, connect_wait_seconds: float) -> Iterator[str]:
    """The embedded server with the schema in it, held until the end; says so on stderr."""
    from ..embedded import Embedded, home
    from ..store import migrations, schema
    from ..store.connect import connected

    with Embedded.open() as server:
        problems.tell(f"runner: using the embedded database in {home()}", settings)
        with connected(server.url, "init", connect_wait_seconds) as conn:
            if schema.version(conn) is None:
                schema.install(conn)
            migrations.migrate(conn)
        yield server.url


@contextlib.contextmanager
def connection(
    settings: Settings,
    role: str,
    connect_wait_seconds: float,
    *,
    any_schema: bool = False,
    statement_seconds: float = QUERY_SECONDS,
) -> "Iterator[Connection]":
    """A connection to the database to use; SchemaMismatch unless it has our schema."""
    from ..store import schema
    from ..store.connect import connected

    with (
        database(settings, connect_wait_seconds) as url,
        connected(url, role, connect_wait_seconds, statement_seconds=statement_seconds) as conn,
    ):
        if not any_schema:
            schema.check(conn)
        yield conn
