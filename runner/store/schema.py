"""The schema in a database: installing it, and whether it is the one this program needs."""

from importlib import resources
from typing import Any

import psycopg
from psycopg import sql

from ..errors import SchemaMismatch
from .sql import value

VERSION = 6


def text() -> str:
    """The whole of schema.sql, a transaction of its own."""
    return (resources.files("runner") / "schema.sql").read_text("utf-8")


def install(conn: psycopg.Connection[Any]) -> None:
    """Create the schema, or do nothing where it is there; the connection must be in autocommit."""
    conn.execute(sql.SQL(text()))


def version(conn: psycopg.Connection[Any]) -> int | None:
    """The schema's version; None where there is none."""
    found: int | None = value(conn, "schema_version") if value(conn, "has_schema") else None
    return found


def check(conn: psycopg.Connection[Any]) -> None:
    """SchemaMismatch unless the schema is there and of this program's version."""
    found = version(conn)
    if found is None:
        raise SchemaMismatch(
            f"the database {conn.info.dbname} has no runner schema", hint="run: runner init"
        )
    if found < VERSION:
        raise SchemaMismatch(
            f"the schema is version {found}, this program needs {VERSION}",
            hint="run: runner migrate",
        )
    if found > VERSION:
        raise SchemaMismatch(
            f"the schema is version {found}, newer than this program's {VERSION}",
            hint="install the runner that made it, or a newer one",
        )
