"""How a worker looks: which kinds it knows, when it lists anew, and when a look was full."""

import random
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from runner.config import FleetConfig
from runner.handling import looking
from runner.handling.looking import Looking
from runner.places import NOBODY_KNOWS, Places
from runner.registry import Registry
from runner.store.claim import NO_BOUNDS, Row, Values
from runner.store.kinds import ServerClock
from tests.db.stage import add, announce
from tests.servers import Connection

pytestmark = pytest.mark.db


class Clock:
    """The local clock of the module, in the test's hands."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(looking, "now", found)
    return found


def look_with(
    db: Connection, *types: str, queues: Sequence[str] | None = None, **options: object
) -> Looking:
    registry = Registry()
    for name in types:
        registry.add(lambda tx, task: None, name)
    config = FleetConfig("postgresql://h/d", "tasks", fair=0.0, **options)  # type: ignore[arg-type]
    worker = announce(db, *types)
    return Looking(db, worker, config, queues, registry, random.Random(1), NO_BOUNDS)  # type: ignore[arg-type]


def claim(it: Looking, *, full: bool = False, wanted: int = 1) -> list[Row]:
    return it.claim(lambda task_type: wanted, (), lambda: None, full=full)


def test_new_kinds_are_found_at_once_by_a_full_look(db: Connection, clock: Clock) -> None:
    it = look_with(db, "t")
    assert claim(it) == []
    add(db, queue="elsewhere", priority=9)
    assert len(claim(it, full=True)) == 1


def test_the_default_kind_needs_no_list(db: Connection, clock: Clock) -> None:
    it = look_with(db, "t")
    assert claim(it) == []
    add(db)
    assert len(claim(it)) == 1


def test_new_kinds_are_found_after_a_second(db: Connection, clock: Clock) -> None:
    it = look_with(db, "t")
    assert claim(it) == []
    add(db, priority=1)
    clock.at += 0.9
    assert claim(it) == []
    clock.at += 0.2
    assert len(claim(it)) == 1


def test_a_wake_up_lists_sooner(db: Connection, clock: Clock) -> None:
    it = look_with(db, "t")
    assert claim(it) == []
    add(db, priority=1)
    clock.at += 0.06
    it.woken = True
    assert len(claim(it)) == 1


def test_only_its_queues(db: Connection, clock: Clock) -> None:
    it = look_with(db, "t", queues=["mail"])
    add(db)
    add(db, queue="other")
    assert claim(it, full=True) == []
    add(db, queue="mail", priority=3)
    clock.at += 2
    assert [row.queue for row in claim(it, full=True)] == ["mail"]


def test_no_queue_is_left_for_it(db: Connection, clock: Clock) -> None:
    it = look_with(db, "t", queues=())
    add(db)
    assert claim(it, full=True) == []
    assert claim(it) == []


def test_an_app_without_handlers_has_looked_fully(db: Connection, clock: Clock) -> None:
    it = look_with(db)
    add(db)
    assert claim(it, full=True) == []
    assert it.was_full


def test_unknown_types_stay(db: Connection, clock: Clock) -> None:
    it = look_with(db, "t")
    add(db, "other", 3)
    assert claim(it, full=True) == []
    assert it.was_full


def test_a_full_look_finds_what_was_committed_late(
    db: Connection, db_url: str, clock: Clock
) -> None:
    it = look_with(db, "t")
    with psycopg.connect(db_url) as slow:
        add(slow)
        for _ in range(5):
            clock.at += 100
            assert claim(it, full=True) == []
        slow.commit()
    assert len(claim(it)) == 1


def test_a_busy_worker_looks_below_the_marks_now_and_then(db: Connection, clock: Clock) -> None:
    """A row below the mark of its kind, while rows above it never run out."""
    it = look_with(db, "t")
    clock.at += 1000
    assert claim(it) == []  # the marks rise
    (late,) = add(db, shuffle=1.0)
    add(db, count=100, shuffle=1e12)
    found = [row.task_id for _ in range(looking.FULL_EVERY + 1) for row in claim(it)]
    assert late not in found[:40] or late in found
    assert len(found) == looking.FULL_EVERY + 1


def test_done_is_deleted_and_told_even_when_nothing_is_found(db: Connection, clock: Clock) -> None:
    it = look_with(db, "t")
    told: list[bool] = []
    assert it.claim(lambda task_type: 1, (), lambda: told.append(True), full=True) == []
    assert told == [True]


def test_a_batch_moves_the_cursor_behind_its_last_row(db: Connection, clock: Clock) -> None:
    it = look_with(db, "t")
    for shuffle in (1e12, 2e12, 3e12, 4e12):
        add(db, shuffle=shuffle)
    assert [row.shuffle for row in claim(it, wanted=3)] == [1e12, 2e12, 3e12]
    add(db, shuffle=2.5e12)
    assert [row.shuffle for row in claim(it)] == [4e12]
    assert [row.shuffle for row in claim(it)] == [2.5e12]


def test_the_full_look_of_a_drain_lists_whatever_a_list_costs(db: Connection, clock: Clock) -> None:
    """Put off, it would be no full look, and the drain would wait for one for ever."""
    it = look_with(db, "t")
    assert claim(it, full=True) == []
    it._list_at = clock.at + 1000.0  # as after a dear list
    assert claim(it, full=True) == []
    assert it.was_full


def test_it_is_known_who_may_be_late_for_an_empty_table(db: Connection, clock: Clock) -> None:
    """Else laps below the marks would be made as long as the session lasts."""
    it = look_with(db, "t")
    assert claim(it) == []  # the marks rise
    assert it._places.snapshot.own != NOBODY_KNOWS
    assert NOBODY_KNOWS not in {late.until for late in it._places.unclean.values()}


def assert_found_after_the_pause(it: Looking, db: Connection, clock: Clock) -> None:
    """And not before, however often it is looked for."""
    for _ in range(3):
        clock.at += 2
        assert claim(it) == []
    db.execute("delete from runner.pause")
    clock.at += 2
    assert len(claim(it)) == 1


def test_what_was_paused_is_found_when_the_pause_is_over(db: Connection, clock: Clock) -> None:
    """A look that passes over a kind tells nothing of it: its mark does not rise."""
    it = look_with(db, "t", "u")
    add(db, shuffle=1000.0)
    db.execute("insert into runner.pause (queue, task_type) values (null, 't')")
    assert_found_after_the_pause(it, db, clock)


def test_what_was_committed_late_while_paused_is_found_when_the_pause_is_over(
    db: Connection, db_url: str, clock: Clock
) -> None:
    """A lap that passed over a kind is none for that kind."""
    it = look_with(db, "t", "u")
    with psycopg.connect(db_url) as slow:
        add(slow, shuffle=1000.0)
        assert claim(it) == []  # the marks rise
        db.execute("insert into runner.pause (queue, task_type) values (null, 't')")
        slow.commit()
    assert_found_after_the_pause(it, db, clock)


def test_a_look_behind_a_list_starts_where_that_has_found_nothing(
    db: Connection, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under an old snapshot it would wade once more through what others have consumed meanwhile."""
    it = look_with(db, "t")
    starts: list[float] = []

    def seen(places: Places, **options: Any) -> Any:
        starts.append(min(place.at for place in places.of.values()))
        return real(places, **options)

    real = it._claiming.compose
    monkeypatch.setattr(it._claiming, "compose", seen)
    assert claim(it) == []
    for place in it._places.met.values():
        place.at = place.mark = float("-inf")  # it slept for long
    clock.at += 1.1
    recent = ServerClock(db).stratum() - 4
    assert claim(it) == []
    assert starts[-1] >= recent
    add(db)
    assert len(claim(it)) == 1


def test_who_was_woken_in_vain_looks_below_its_marks(db: Connection, clock: Clock) -> None:
    """It is the eldest that is woken each time: with marks that are wrong nobody would find the task."""
    it = look_with(db, "t")
    assert claim(it) == []
    it._clock._ahead += 3600  # as if it had connected while the database's clock was ahead
    clock.at += 2
    assert claim(it) == []
    add(db)
    clock.at += 2
    assert claim(it) == []
    it.woken = True
    assert len(claim(it)) == 1


def test_what_is_committed_late_is_looked_for_once_more_before_one_idles(
    db: Connection, db_url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look that was empty has raised the marks past it, and the next may be half a minute away."""
    it = look_with(db, "t")
    rise = it._places.found_nothing
    with psycopg.connect(db_url) as slow:
        add(slow, shuffle=1000.0)

        def rise_and_commit(stratum: float) -> None:
            rise(stratum)
            slow.commit()

        monkeypatch.setattr(it._places, "found_nothing", rise_and_commit)
        assert len(claim(it)) == 1


def test_a_lap_that_was_put_off_is_made_when_it_is_due_and_not_for_the_next_task(
    db: Connection, db_url: str, clock: Clock
) -> None:
    """After a large drain under an old snapshot it reads all that was taken, and the next task waited
    for that, however long after."""
    it = look_with(db, "t")
    laps: list[float] = []
    made = it._places.made_lap
    it._places.made_lap = lambda: (laps.append(clock.at), made())[1]  # type: ignore[method-assign]
    assert claim(it) == []
    assert it.lap_at == float("inf")
    with psycopg.connect(db_url) as other:
        other.execute("select pg_current_xact_id()")
        add(db)
        assert len(claim(it)) == 1
        it._clock._ahead += 4  # the mark can rise, past what the other may commit
        it._full_at = clock.at + 5  # the lap before was dear
        laps.clear()
        assert claim(it) == []
        assert it._places.unclean
        assert (laps, it.lap_at) == ([], clock.at + 5)
        clock.at += 5
        assert claim(it) == []
        assert laps == [clock.at]
        assert it._places.unclean  # the other is still there, but nothing was taken since
        assert it.lap_at == float("inf")


def test_what_was_committed_late_is_found_in_a_kind_of_which_no_list_tells(
    db: Connection, db_url: str, clock: Clock
) -> None:
    """A list begins at the marks: a lap goes through all kinds that were met."""
    it = look_with(db, "t")
    add(db, priority=3)
    assert len(claim(it)) == 1
    with psycopg.connect(db_url) as slow:
        add(slow, priority=3, shuffle=1000.0)
        for _ in range(5):
            clock.at += 0.5
            assert claim(it) == []
        slow.commit()
    clock.at += 2
    assert len(claim(it)) == 1


def test_a_drain_finds_what_was_committed_late_in_a_kind_that_another_has_emptied(
    db: Connection, db_url: str, clock: Clock
) -> None:
    it = look_with(db, "t")
    (first,) = add(db, priority=3)
    with psycopg.connect(db_url) as other, psycopg.connect(db_url) as slow:
        other.execute("delete from runner.task where task_id = %s", [first])
        add(slow, priority=3, shuffle=1000.0)
        assert claim(it, full=True) == []  # listed, and in the other's hands
        other.commit()
        assert claim(it, full=True) == []
        slow.commit()
    assert len(claim(it, full=True)) == 1


def test_a_look_that_failed_was_not_full(db: Connection, db_url: str, clock: Clock) -> None:
    """Whatever the one before was: a drain would end on it."""
    it = look_with(db, "t")
    assert claim(it, full=True) == []
    assert it.was_full
    with psycopg.connect(db_url) as other, db.transaction():
        other.execute("lock table runner.task")
        db.execute("set local lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable), db.transaction():
            claim(it, full=True)
    assert not it.was_full


def test_a_lap_that_failed_is_not_made_again_at_once(
    db: Connection, db_url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take longer than a claim may: then no look would come through as long as it is due."""
    it = look_with(db, "t")
    laps = []

    def cut_short(values: Values, *args: Any, **options: Any) -> list[Row]:
        if values["last_lap"] == b"2":
            laps.append(clock.at)
            raise psycopg.errors.QueryCanceled
        return claim_rows(values, *args, **options)

    with psycopg.connect(db_url) as slow:
        add(slow, "other")
        claim_rows = it._claiming.claim
        monkeypatch.setattr(it._claiming, "claim", cut_short)
        with pytest.raises(psycopg.errors.QueryCanceled):
            claim(it)  # the marks rise
        for _ in range(29):
            clock.at += 2
            assert claim(it) == []
        clock.at += 2
        with pytest.raises(psycopg.errors.QueryCanceled):
            claim(it)
    assert len(laps) == 2
