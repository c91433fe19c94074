"""Under an old snapshot consumed rows stay in the index: nobody wades through them twice."""

import json
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel, sql

from runner.places import NO_SNAPSHOT, Kind, Late, Places, Snapshot
from runner.store.kinds import _arrays, list_kinds
from runner.store.sql import query
from tests.db.stage import Claimer, add, one
from tests.servers import Connection

pytestmark = pytest.mark.db
CONSUMED = 5000
KIND = Kind("default", "t", 5)
STRATUM = "select floor(extract(epoch from clock_timestamp()) / 2)::float8"


def of_a_list(conn: psycopg.Connection[Any], places: Places) -> int:
    """What one list of the kinds reads."""
    marks = [place.mark for place in places.met.values()]
    return buffers(conn, "kinds", _arrays(places.met) | {"marks": marks, "draw": False})


def buffers(conn: psycopg.Connection[Any], name: str, values: dict[str, Any]) -> int:
    """What this query reads when it is sent again."""
    explain = sql.SQL("explain (analyze, buffers, timing off, format json) ") + query(name)
    conn.execute("analyze runner.task")
    found = [conn.execute(explain, values).fetchone() for _ in range(2)][1]
    assert found is not None
    plan = found[0] if isinstance(found[0], list) else json.loads(found[0])
    node = plan[0]["Plan"]
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


def test_a_list_from_the_marks_skips_what_was_consumed(fresh: str) -> None:
    with psycopg.connect(fresh, autocommit=True) as db, psycopg.connect(fresh) as pin:
        consume(db, pin)


def consume(db: Connection, pin: Connection) -> None:
    """Fill and empty a kind while a snapshot is held; what a list of the kinds reads then."""
    places = Places()
    places.know([Kind("default", "t", 5)])
    before = of_a_list(db, places)
    pin.isolation_level = IsolationLevel.REPEATABLE_READ
    pin.execute("select count(*) from runner.task")
    db.execute(
        "insert into runner.task (task_type, shuffle)"
        " select 't', 400 * random() from generate_series(1, %s)",
        [CONSUMED],
    )
    db.execute("delete from runner.task")
    add(db, "u", 1, shuffle=1000.0)
    assert list_kinds(db, places, draw=True) == [("default", "u", 5)]
    places.listed([Kind("default", "u", 5)], 500.0)
    assert places.met[Kind("default", "t", 5)].mark == 498.0
    after = of_a_list(db, places)
    everything = of_a_list(db, Places())
    assert everything > CONSUMED / 10  # the check would see it
    assert after <= before + everything / 50


def test_a_quiet_snapshot_needs_no_lap(db: Connection, db_url: str) -> None:
    """Only a transaction that was in progress when a mark rose can leave something below it."""
    claimer = Claimer(db, "t").know(("default", "t", 5))
    assert claimer.claim() == []
    claimer.places.snapshot = Snapshot(100, 100)
    claimer.places.found_nothing(1000.0)
    assert not claimer.places.unclean
    claimer.places.snapshot = Snapshot(100, 105)
    claimer.places.found_nothing(2000.0)
    assert claimer.places.unclean.keys() == {KIND}
    claimer.places.snapshot = Snapshot(104, 110)
    claimer.places.made_lap()  # one of them is in progress still
    assert claimer.places.unclean.keys() == {KIND}
    claimer.places.snapshot = Snapshot(105, 110)
    claimer.places.made_lap()
    assert not claimer.places.unclean


def test_a_writer_in_progress_makes_a_lap_necessary(db: Connection, db_url: str) -> None:
    claimer = Claimer(db, "t").know(("default", "t", 5))
    assert claimer.places.snapshot == NO_SNAPSHOT
    with psycopg.connect(db_url) as slow:
        slow.execute("insert into runner.task (task_type) values ('t')")
        assert claimer.claim() == []
        assert claimer.places.snapshot.xmin < claimer.places.snapshot.own
        claimer.places.found_nothing(10.0**12)
        assert claimer.places.unclean.keys() == {KIND}
        slow.commit()
    assert len(claimer.claim(full=True)) == 1


def test_how_far_down_a_late_row_may_lie() -> None:
    """Not below the stratum in which the oldest transaction that was in progress may have begun."""
    places = Places()
    for stratum, own in ((100.0, 50), (100.5, 52), (110.0, 60), (120.0, 70)):
        places.begin(stratum)
        places.saw(Snapshot(own, own))
    places.know([KIND])
    places.begin(130.0)
    places.saw(Snapshot(65, 80))  # it began after 60 was drawn
    places.found_nothing(130.0)
    assert places.unclean == {KIND: Late(until=80, least=109.0)}
    places.begin(140.0)
    places.saw(Snapshot(75, 90))
    places.found_nothing(140.0)
    assert places.unclean == {KIND: Late(until=90, least=109.0)}  # until all have ended
    places.saw(Snapshot(90, 95))
    places.made_lap()
    assert not places.unclean
    places.saw(Snapshot(49, 100))  # older than all that we have drawn
    places.found_nothing(200.0)
    assert places.unclean[KIND].least == float("-inf")


def test_how_far_down_a_late_row_may_lie_is_told_by_kind() -> None:
    """The mark of one that is being drained rises at the end, whenever those of the others did: the lap
    after it would wade through all that was taken."""
    drained, empty = KIND, Kind("default", "empty", 5)
    places = Places()
    places.know([drained, empty])
    for stratum, own in ((100.0, 50), (120.0, 70)):
        places.begin(stratum)
        places.saw(Snapshot(own - 1, own))  # somebody is always in progress
        places.listed([drained], stratum)
    places.begin(120.0)
    places.saw(Snapshot(75, 80))
    places.found_nothing(120.0)
    assert places.unclean[empty].least == float("-inf")
    assert places.unclean[drained].least == 119.0
    assert places.lap_from(drained, to_the_end=False) == 118.0  # its mark
    assert places.lap_from(empty, to_the_end=False) == float("-inf")
    places.saw(Snapshot(80, 90))
    places.made_lap()
    assert not places.unclean


def test_a_lap_that_was_dear_goes_down_to_what_may_be_late(db: Connection, db_url: str) -> None:
    """Where it has to look, and no further; what somebody had locked is found by one to the end."""
    claimer = Claimer(db, "t").know(KIND)
    add(db, shuffle=5.0)
    with psycopg.connect(db_url) as slow, psycopg.connect(db_url) as locker:
        locker.execute("select from runner.task for update")
        claimer.places.begin(float(one(db, STRATUM)))
        assert claimer.claim() == []
        slow.execute("insert into runner.task (task_type) values ('t')")
        locker.rollback()
        claimer.place(KIND, 10.0, 10.0)
        claimer.places.begin(float(one(db, STRATUM)))
        assert claimer.claim() == []
        claimer.places.found_nothing(10.0**12)
        slow.commit()
    down_to = claimer.places.unclean[KIND].least
    assert 5.0 < down_to <= one(db, STRATUM)
    (late,) = claimer.claim(full=True, to_the_end=False)
    assert late.shuffle >= down_to
    assert claimer.claim(full=True, to_the_end=False) == []
    assert [found.shuffle for found in claimer.claim(full=True)] == [5.0]


def test_a_renewal_skips_what_its_workers_have_done(fresh: str) -> None:
    with psycopg.connect(fresh, autocommit=True) as db, psycopg.connect(fresh) as pin:
        pin.isolation_level = IsolationLevel.REPEATABLE_READ
        pin.execute("select count(*) from runner.task")
        claimer = Claimer(db, "t")
        own = {"worker": claimer.worker_id}
        db.execute(
            "insert into runner.task (task_type, state, fence, lease_owner, claimed_at)"
            " select 't', 'running', 1, %(worker)s, now() from generate_series(1, 5000)",
            own,
        )
        db.execute("delete from runner.task")
        add(db)
        task = claimer.take()
        assert task is not None
        asked = {"workers": [claimer.worker_id], "tasks": [task.task_id], "fences": [task.fence]}
        assert buffers(db, "taken", asked) < 20
