"""The named statements of `queries/*.sql` for psycopg; read when this is imported, before any fork."""

from psycopg import sql

from ..statements import statements

_STATEMENTS = statements()


def query(name: str) -> sql.SQL:
    """The statement of this name; KeyError when there is none."""
    return sql.SQL(_STATEMENTS[name])


def names() -> list[str]:
    """Every statement's name."""
    return list(_STATEMENTS)
