"""What payload and text let through is what PostgreSQL stores and gives back."""

import asyncio
import json
import math
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner import payload
from runner.errors import InvalidTask
from runner.text import error_text
from tests.data import ACCEPTED, NAUGHTY
from tests.servers import Connection
from tests.unit.test_payload import JSON, same

pytestmark = pytest.mark.db

TABLE = "create temp table person (name text primary key)"
TWICE = "insert into person values ('S3cr3tXyz'), ('S3cr3tXyz')"
MESSAGE = 'duplicate key value violates unique constraint "person_pkey" (23505)'


def stored(db: Connection, params: Any) -> Any:
    """What a worker reads when somebody enqueues this."""
    row = db.execute("select %s::jsonb::text", [payload.dumps(params)]).fetchone()
    assert row is not None
    return json.loads(row[0])


# The connection is only read from: sharing it among examples is meant.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(JSON)
def test_jsonb_gives_back_what_was_given(db: Connection, params: Any) -> None:
    assert same(stored(db, params), params)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_stay_floats(db: Connection, number: float) -> None:
    assert same(stored(db, [number]), [number])


def test_what_a_strict_reader_takes(db: Connection) -> None:
    for text in ACCEPTED:
        value = payload.loads_strict(text)
        assert same(stored(db, value), value)


def test_what_counts_as_the_same_params(db: Connection) -> None:
    def is_same(one: Any, other: Any) -> bool:
        texts = payload.dumps(one), payload.dumps(other)
        row = db.execute("select %s::jsonb::text = %s::jsonb::text", texts).fetchone()
        return row == (True,)

    assert is_same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert is_same((1, 2), [1, 2])
    assert is_same(-0.0, 0.0)
    assert not is_same(1, 1.0)
    assert not is_same(1, True)
    assert not is_same("\u00e9", "e\u0301")
    assert not is_same({"a": None}, {})


@pytest.mark.parametrize("params", [{"a": ["x\0"]}, {"f": "\ud800"}, [math.nan], {1: 2}, object()])
def test_a_refusal_leaves_the_transaction_usable(db: Connection, params: Any) -> None:
    with db.transaction():
        db.execute("create temp table own (n int)")
        with pytest.raises(InvalidTask):
            payload.dumps(params)
        db.execute("insert into own values (1)")
    assert db.execute("select n from own").fetchall() == [(1,)]


def test_every_error_text_can_be_stored(db: Connection) -> None:
    for text in map(error_text, map(ValueError, NAUGHTY)):
        assert db.execute("select %s::text", [text]).fetchone() == (text,)


def test_psycopg_error_without_values(db: Connection) -> None:
    db.execute(TABLE)
    with pytest.raises(psycopg.errors.UniqueViolation) as failure:
        db.execute(TWICE)
    assert "S3cr3tXyz" in str(failure.value)
    assert error_text(failure.value) == f"UniqueViolation: {MESSAGE}"


def test_psycopg2_error_without_values(db_url: str) -> None:
    psycopg2 = pytest.importorskip("psycopg2")
    conn = psycopg2.connect(db_url)
    try:
        cursor = conn.cursor()
        cursor.execute(TABLE)
        with pytest.raises(psycopg2.IntegrityError) as failure:
            cursor.execute(TWICE)
    finally:
        conn.close()
    assert error_text(failure.value) == f"UniqueViolation: {MESSAGE}"


def test_asyncpg_error_without_values(db_url: str) -> None:
    asyncpg = pytest.importorskip("asyncpg")

    async def fail() -> None:
        conn = await asyncpg.connect(db_url)
        try:
            await conn.execute(TABLE)
            await conn.execute(TWICE)
        finally:
            await conn.close()

    with pytest.raises(asyncpg.UniqueViolationError) as failure:
        asyncio.run(fail())
    check_without_values(failure.value)


def test_sqlalchemy_error_without_values(db_url: str) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(db_url)
    )
    with engine.connect() as conn:
        conn.execute(sqlalchemy.text(TABLE))
        insert = sqlalchemy.text("insert into person values (:name), (:name)")
        with pytest.raises(sqlalchemy.exc.IntegrityError) as failure:
            conn.execute(insert, {"name": "S3cr3tXyz"})
    engine.dispose()
    assert error_text(failure.value) == f"IntegrityError: {MESSAGE}"


def test_django_error_without_values(db: Connection) -> None:
    utils = pytest.importorskip("django.db.utils")
    db.execute(TABLE)
    with pytest.raises(psycopg.errors.UniqueViolation) as cause:
        db.execute(TWICE)
    with pytest.raises(utils.IntegrityError) as failure:
        raise utils.IntegrityError(*cause.value.args) from cause.value
    check_without_values(failure.value)


def check_without_values(error: BaseException) -> None:
    assert "S3cr3tXyz" in str(error)
    assert "S3cr3tXyz" not in error_text(error)
    assert 'violates unique constraint "person_pkey"' in error_text(error)
