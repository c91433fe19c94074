"""Bringing an older schema up to this program's version, a step at a time.

Each step is a file beside this one, `NNN_words.sql`, where NNN is the version that it makes out of the
one before. It is run in a transaction of its own together with the change of the version row, which is
locked first: a kill leaves the version before, whole, and of two who migrate the second finds nothing
to do. A file has neither BEGIN nor COMMIT in it, and nothing that cannot run in a transaction. What it
makes must be what schema.sql makes afresh: a test compares them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import psycopg
from psycopg import sql

from ...errors import SchemaMismatch
from .. import schema
from ..sql import query, value

Connection = psycopg.Connection[Any]
_NAME = re.compile(r"([0-9]{3})_\w+\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """A step from the version before to this one."""

    version: int
    name: str
    text: str


def migrations() -> list[Migration]:
    """Every step that this program has, in order."""
    found = []
    for file in resources.files(__package__).iterdir():
        if match := _NAME.fullmatch(file.name):
            name = file.name.removesuffix(".sql")
            found.append(Migration(int(match[1]), name, file.read_text("utf-8")))
    return sorted(found, key=lambda one: one.version)


def pending(conn: Connection, steps: Sequence[Migration] | None = None) -> list[Migration]:
    """The steps that this database lacks; SchemaMismatch where there is no schema, or a newer one."""
    version = schema.version(conn) or 0
    if not 1 <= version <= schema.VERSION:
        schema.check(conn)
    return [one for one in (migrations() if steps is None else steps) if one.version > version]


def migrate(conn: Connection, steps: Sequence[Migration] | None = None) -> list[Migration]:
    """Take every step that is lacking, each committed by itself; those that were taken here."""
    return [one for one in pending(conn, steps) if _take(conn, one)]


def script(steps: Sequence[Migration]) -> str:
    """These steps for psql."""
    frame = query("migration_script").as_string(None)
    return "\n".join(
        frame.format(before=one.version - 1, version=one.version, body=one.text.strip()) + ";\n"
        for one in steps
    )


def _take(conn: Connection, step: Migration) -> bool:
    """One step in one transaction; False where somebody else has taken it meanwhile."""
    with conn.transaction():
        conn.execute(query("migration_patience"))
        before = value(conn, "lock_version")
        if before is not None and before >= step.version:
            return False
        if before != step.version - 1:
            raise SchemaMismatch(f"{step.name} does not fit a schema of version {before}")
        conn.execute(sql.SQL(step.text))
        conn.execute(query("set_version"), {"version": step.version})
    return True
