"""Where a worker looks: on from its cursor, around, and below the mark; and never without a lease."""

from uuid import uuid4

import psycopg
import pytest

from tests.db.stage import Claimer, add, one
from tests.servers import Connection

pytestmark = pytest.mark.db


class TestPlaces:
    """The cursor of a kind: on from the last one, then around, then below the mark."""

    KIND = ("default", "t", 5)

    def test_on_from_the_cursor_and_around(self, db: Connection) -> None:
        for shuffle in (10.0, 20.0, 30.0):
            add(db, shuffle=shuffle)
        claimer = Claimer(db, "t")
        claimer.place(self.KIND, 20.0, 0.0)
        got = []
        for _ in range(3):
            (found,) = claimer.claim()
            got.append(found.shuffle)
            claimer.places.took(found.kind, found.shuffle, found.shuffle, 1000.0)
        assert got == [30.0, 10.0, 20.0]

    def test_what_stands_at_the_bounds_is_in_exactly_one_lap(self, db: Connection) -> None:
        for shuffle in (5.0, 7.0):
            add(db, shuffle=shuffle)
        claimer = Claimer(db, "t")
        claimer.place(self.KIND, 7.0, 5.0)
        assert [found.shuffle for found in claimer.claim(wanted=5)] == [7.0]
        assert [found.shuffle for found in claimer.claim(wanted=5, full=True)] == [5.0]

    def test_below_the_mark_only_a_full_lap_looks(self, db: Connection) -> None:
        (late,) = add(db, shuffle=3.0)
        claimer = Claimer(db, "t")
        claimer.place(self.KIND, 50.0, 40.0)
        assert claimer.claim() == []
        assert [found.task_id for found in claimer.claim(full=True)] == [late]

    def test_rows_that_share_a_place_are_taken_one_after_the_other(self, db: Connection) -> None:
        """And not when the work above has ended, which it may never do."""
        for shuffle in (10.0, 10.0, 20.0):
            add(db, shuffle=shuffle)
        claimer = Claimer(db, "t").know(self.KIND)
        assert [self.take(claimer) for _ in range(3)] == [10.0, 10.0, 20.0]

    def test_after_a_wrap_the_mark_does_not_hide_what_shares_a_place(self, db: Connection) -> None:
        """Nobody was in progress, so no lap below the mark would be due."""
        for _ in range(2):
            add(db, shuffle=10.0)
        claimer = Claimer(db, "t")
        claimer.place(self.KIND, 50.0, 0.0)
        assert [self.take(claimer) for _ in range(2)] == [10.0, 10.0]

    def take(self, claimer: Claimer) -> float:
        (found,) = claimer.claim()
        claimer.places.took(found.kind, found.shuffle, found.shuffle, 1000.0)
        return found.shuffle

    def test_a_row_committed_late_below_the_mark(self, db: Connection, db_url: str) -> None:
        claimer = Claimer(db, "t").know(self.KIND)
        with psycopg.connect(db_url) as slow:
            slow.execute("insert into runner.task (task_type) values ('t')")
            stratum = one(db, "select floor(extract(epoch from clock_timestamp()) / 2)::float8")
            assert claimer.claim() == []
            claimer.places.found_nothing(stratum + 100)  # much later
            slow.commit()
        assert claimer.claim() == []
        assert len(claimer.claim(full=True)) == 1

    def test_marks_never_rise_above_two_strata_ago(self, db: Connection) -> None:
        claimer = Claimer(db, "t").know(self.KIND)
        claimer.places.found_nothing(1000.0)
        (place,) = claimer.places.of.values()
        assert (place.at, place.mark) == (998.0, 998.0)
        add(db, shuffle=1000.5)
        (found,) = claimer.claim()
        claimer.places.took(found.kind, found.shuffle, found.shuffle, 1000.0)
        add(db, shuffle=999.5)
        (found,) = claimer.claim()  # after a wrap
        claimer.places.took(found.kind, found.shuffle, found.shuffle, 1000.0)
        assert place.mark == 998.0

    def test_places_of_known_kinds_stay_and_others_go(self, db: Connection) -> None:
        claimer = Claimer(db, "t")
        claimer.place(self.KIND, 50.0, 40.0)
        claimer.know(self.KIND, ("q", "t", 5))
        assert [place.at for place in claimer.places.of.values()] == [50.0, float("-inf")]
        claimer.know(("q", "t", 5))
        assert len(claimer.places.of) == 1


class TestRefusal:
    """No claim without a lease of one's own."""

    def test_after_the_lease_has_ended(self, db: Connection) -> None:
        (task,) = add(db)
        claimer = Claimer(db, "t").look_around()
        db.execute("update runner.worker set lease_until = clock_timestamp()")
        assert claimer.claim(full=True) == []
        db.execute("update runner.worker set lease_until = clock_timestamp() + lease")
        assert [found.task_id for found in claimer.claim()] == [task]

    def test_when_the_row_is_gone(self, db: Connection) -> None:
        add(db)
        claimer = Claimer(db, "t").look_around()
        db.execute("delete from runner.worker")
        assert claimer.claim(full=True) == []

    def test_for_a_worker_that_never_was(self, db: Connection) -> None:
        add(db)
        claimer = Claimer(db, "t").look_around()
        claimer.worker_id = uuid4()
        assert claimer.claim(full=True) == []
