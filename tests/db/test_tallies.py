"""Counts in the table: added once a period, folded after an hour, never lost on the way."""

import psycopg
import pytest

from runner.store import tallies
from runner.tally import Tally
from runner.wire import Outcome
from tests.db.stage import one
from tests.servers import Connection

pytestmark = pytest.mark.db


def counted(*outcomes: Outcome) -> Tally:
    tally = Tally(1)
    for outcome in outcomes:
        tally.ended(outcome, 0.25)
    return tally


OK, DEAD = Outcome.OK, Outcome.DEAD


def test_counts_of_one_minute_add_up(db: Connection) -> None:
    db.execute("begin")  # clock_timestamp() may pass a minute; the sums may not
    tallies.add(db, {"b": counted(OK, DEAD), "a'\"": counted(OK)})
    tallies.add(db, {"b": counted(OK, Outcome.RETRIED, Outcome.LOST, Outcome.RELEASED)})
    db.execute("commit")
    quoted, b = tallies.totals(db)
    assert quoted["type"] == "a'\""
    assert (b["done"], b["failed"], b["dead"], b["released"], b["lost"]) == (2, 2, 1, 1, 1)
    assert b["seconds"] == 1.0
    assert b["durations"] == [4 * count for count in counted(OK).durations]
    assert 0 <= tallies.recent(db)[-1]["began_seconds_ago"] < 61


def test_old_minutes_are_folded_and_totals_stay(db: Connection) -> None:
    for hours in (0, 2, 3, 4):
        tallies.add(db, {"a": counted(OK), "b": counted(DEAD, DEAD)})
        db.execute(
            "update runner.tally set minute = minute - make_interval(hours => %s)"
            " where minute > now() - interval '5 minutes'",
            [hours],
        )
        if hours == 2:
            before = tallies.totals(db)
            tallies.fold(db)
            assert tallies.totals(db) == before
    before = tallies.totals(db)
    for _ in range(2):
        tallies.fold(db)
        assert tallies.totals(db) == before
    assert [row["done"] for row in before] == [4, 0]
    assert one(db, "select count(*) from runner.tally where minute > '-infinity'") == 0
    assert one(db, "select count(*) from runner.tally") == 2


def test_two_folds_at_once_count_nothing_twice(db: Connection, db_url: str) -> None:
    tallies.add(db, {"a": counted(OK)})
    db.execute("update runner.tally set minute = minute - interval '2 hours'")
    before = tallies.totals(db)
    with psycopg.connect(db_url) as other:
        tallies.fold(other)  # not committed: its rows are locked, and passed by
        tallies.fold(db)
        other.commit()
    tallies.fold(db)
    assert tallies.totals(db) == before
