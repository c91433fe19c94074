"""Places among those of a kind: strata in order, in each the 10 ms scattered, and in those chance.

The column's own default is asked, with moments in place of the clock.
"""

from itertools import pairwise

import psycopg
import pytest

from tests.db.stage import add, one
from tests.servers import Connection

pytestmark = pytest.mark.db

DEFAULT = """
    select pg_get_expr(d.adbin, d.adrelid) from pg_attrdef d join pg_attribute a
    on (a.attrelid, a.attnum) = (d.adrelid, d.adnum)
    where d.adrelid = %s::regclass and a.attname = 'shuffle'"""
SLICES = 200  # of 10 ms, in a stratum
CELLS = 128
BULK = 50_000


def places(db: Connection, moments: str) -> list[float]:
    """Of tasks that become ready one after another at these moments, seconds since a stratum began."""
    default = one(db, DEFAULT, "runner.task")
    assert "clock_timestamp()" in default
    query = f"""select {default.replace("clock_timestamp()", "moment")}
                from (select timestamptz '2030-01-01 00:00:00+00' + make_interval(secs => {moments})
                      as moment, n from generate_series(0, 999) as n) given order by n"""
    return [found[0] for found in db.execute(query.encode())]


def cell(place: float) -> int:
    return int(place % 1 * CELLS)


def assert_random(order: list[float]) -> None:
    """Neither rising nor falling: each next one lies above as often as below, within eight sigmas."""
    rises = sum(one < other for one, other in pairwise(order))
    assert abs(rises / len(order) - 0.5) < 8 * (12 * len(order)) ** -0.5


def test_what_arrived_together_lies_together_in_random_order(db: Connection) -> None:
    found = places(db, "0.5 + 0 * n")
    assert len(set(map(cell, found))) == 1
    assert len(set(found)) > 950  # few of them share a place
    assert_random(found)


def test_one_by_one_the_order_is_random(db: Connection) -> None:
    """A stratum's slices, five tasks each: scattered, and over all of it."""
    found = places(db, "(n / 5) * 0.01")
    assert len({int(place) for place in found}) == 1
    of_slices = found[::5]
    assert len(of_slices) == SLICES
    assert [cell(place) for place in found] == [
        cell(place) for place in of_slices for _ in range(5)
    ]
    assert_random(of_slices)
    assert len(set(map(cell, of_slices))) > CELLS / 2


def test_strata_are_in_order(db: Connection) -> None:
    strata = [int(place) for place in places(db, "n * 0.05")]
    assert [stratum - strata[0] for stratum in strata] == [n // 40 for n in range(1000)]


def test_the_function_does_what_the_default_does(db: Connection) -> None:
    body = one(db, "select prosrc from pg_proc where oid = 'runner.shuffle()'::regprocedure")
    with db.transaction(force_rollback=True):
        default = body.strip().removeprefix("select")
        db.execute(f"create temp table other (shuffle float8 default {default})".encode())
        assert one(db, DEFAULT, "other") == one(db, DEFAULT, "runner.task")


def test_a_bulk_is_claimed_from_few_pages(fresh: str) -> None:
    """Its first 200 lie on 40 pages or so, depending on what is written in 10 ms; if chance alone
    decided, on 180 of the 900."""
    pages = """select count(distinct (ctid::text::point)[0])
               from (select ctid from runner.task order by shuffle limit 200) first"""
    with psycopg.connect(fresh, autocommit=True) as db:
        add(db, count=BULK)
        assert one(db, "select pg_relation_size('runner.task') / 8192") > 500
        assert one(db, pages) < 140
