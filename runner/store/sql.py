"""The named statements of `queries/*.sql` for psycopg; read when this is imported, before any fork."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row, scalar_row

from ..statements import statements

Text = sql.SQL | sql.Composed
_STATEMENTS = statements()


def query(name: str) -> sql.SQL:
    """The statement of this name; KeyError when there is none."""
    return sql.SQL(_STATEMENTS[name])


@cache
def whole(name: str, part: str) -> sql.SQL:
    """A statement with another in it, where that one's name stands in braces; put together once."""
    return sql.SQL(query(name).format(**{part: query(part)}).as_string())


def numbered(text: bytes) -> tuple[bytes, list[str]]:
    """A statement with psycopg's named parameters as libpq wants it, by number; the names, in order."""
    names: list[str] = []

    def number(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            return b"%"
        name = found[1].decode()
        if name not in names:
            names.append(name)
        return b"$%d" % (names.index(name) + 1)

    return re.sub(rb"%(?:%|\((\w+)\)s)", number, text), names


def records(
    conn: psycopg.Connection[Any],
    statement: str | Text,
    values: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """The rows of a statement, or of the one of this name, each by the names of its columns."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_of(statement), values).fetchall()


def column(
    conn: psycopg.Connection[Any],
    statement: str | Text,
    values: Mapping[str, Any] | None = None,
) -> list[Any]:
    """The first column of its rows."""
    with conn.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(_of(statement), values).fetchall()


def value(
    conn: psycopg.Connection[Any],
    statement: str | Text,
    values: Mapping[str, Any] | None = None,
) -> Any:
    """The first column of its only row; None where there is no row."""
    return next(iter(column(conn, statement, values)), None)


def _of(statement: str | Text) -> Text:
    return query(statement) if isinstance(statement, str) else statement
