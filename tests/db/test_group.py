"""A group of tasks in one transaction: whatever one of them does, the others' effects are right."""

import signal
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from runner.errors import TimeLimit
from runner.store.savepoints import DEEPEST
from runner.store.tx import Tx
from runner.task import Task
from tests.db.grouping import EFFECT, LARGE, SLEEP, Groups, Member, good, raises, silent

pytestmark = pytest.mark.db


def raises_at_once(tx: Tx, task: Task) -> None:
    raise ValueError("nothing was sent")


def divides(tx: Tx, task: Task) -> None:
    good(tx, task)
    tx.execute("select 1 / %s", [0])


def swallows(tx: Tx, task: Task) -> None:
    try:
        divides(tx, task)
    except psycopg.Error:
        pass


def sleeps(tx: Tx, task: Task) -> None:
    """Is interrupted in a statement that took along what was to go before it."""

    def strike(number: int, frame: object) -> None:
        raise TimeLimit("in a statement")

    before = signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        tx.execute(SLEEP, [30.0])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_all_are_done(groups: Groups) -> None:
    ids = groups.run(good, good, silent, good, good)
    assert groups.left(ids) == {}
    assert groups.effects() == [ids[0], ids[1], ids[3], ids[4]]


@pytest.mark.parametrize(
    ("bad", "cause"),
    [
        (raises, "ValueError"),
        (raises_at_once, "ValueError"),
        (divides, "psycopg.errors.DivisionByZero"),
        (swallows, "SwallowedError"),
        (sleeps, "time limit"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("at", [0, 1, 3])
def test_who_fails_takes_nobody_along(groups: Groups, bad: Member, cause: str, at: int) -> None:
    members: list[Member] = [good, good, good]
    members.insert(at, bad)
    ids = groups.run(*members)
    assert groups.left(ids) == {at: ("scheduled", 1, cause)}
    assert groups.effects() == [each for each in ids if each != ids[at]]


@pytest.mark.timeout(60)
def test_a_statement_larger_than_what_a_socket_holds(groups: Groups) -> None:
    def large(tx: Tx, task: Task) -> None:
        tx.execute(LARGE, [task.id, "x" * 20_000_000])

    ids = groups.run(good, large, good)
    assert groups.left(ids) == {}
    assert groups.effects() == ids


def test_two_that_fail_one_behind_the_other(groups: Groups) -> None:
    ids = groups.run(good, raises, raises_at_once, raises, good, raises_at_once)
    assert sorted(groups.left(ids)) == [1, 2, 3, 5]
    assert groups.effects() == [ids[0], ids[4]]


def in_a_block(tx: Tx, task: Task) -> None:
    with tx.transaction():
        good(tx, task)


def by_copy(tx: Tx, task: Task) -> None:
    with tx.cursor().copy("copy effect from stdin") as copy:
        copy.write_row([task.id])


def by_many(tx: Tx, task: Task) -> None:
    tx.cursor().executemany(EFFECT, [[task.id]])


def by_stream(tx: Tx, task: Task) -> None:
    list(tx.cursor().stream(f"{EFFECT} returning n", [task.id]))


def in_a_pipeline(tx: Tx, task: Task) -> None:
    with tx.pipeline():
        good(tx, task)


@pytest.mark.parametrize("way", [in_a_block, by_copy, by_many, by_stream, in_a_pipeline])
def test_every_way_into_the_transaction_is_behind_a_savepoint(groups: Groups, way: Member) -> None:
    def way_and_raise(tx: Tx, task: Task) -> None:
        way(tx, task)
        raise ValueError("and nothing of it")

    ids = groups.run(good, way, way_and_raise, way, good)
    assert sorted(groups.left(ids)) == [2]
    assert groups.effects() == [ids[0], ids[1], ids[3], ids[4]]


@pytest.mark.parametrize("next_one", [good, in_a_block, raises, silent])
def test_who_breaks_the_savepoints_undoes_the_group(groups: Groups, next_one: Member) -> None:
    """All of them run again, one by one, and nobody is charged: not even who met the broken savepoint
    with its own first statement."""

    def breaks(tx: Tx, task: Task) -> None:
        good(tx, task)
        tx.execute(b"release savepoint " + outermost[0])

    def looks(tx: Tx, task: Task) -> None:
        outermost.append(tx._members.current)  # whoever wants to can find out
        good(tx, task)

    outermost: list[bytes] = []

    ids = groups.run(looks, breaks, next_one, silent)
    if next_one is silent:  # nobody needs the savepoint any more
        assert groups.left(ids) == {}
        assert groups.effects() == ids[:2]
        return
    again = ("ready", 0, "its group was rolled back")
    assert {place: left for place, left in groups.left(ids).items() if place < 3} == dict.fromkeys(
        range(3), again
    )
    assert groups.effects() == []
    # Those that are given back may run elsewhere by now: on goes the one that was not begun.
    assert groups.returned is not None
    assert groups.returned.task_id == ids[3]


def test_a_savepoint_is_never_rolled_back_too_far(groups: Groups) -> None:
    """Who takes its predecessor's name for its own savepoint hits nobody but itself."""

    def goes_back(tx: Tx, task: Task) -> None:
        good(tx, task)
        with tx.transaction(force_rollback=True):
            good(tx, task)
        raise ValueError("at last")

    ids = groups.run(good, goes_back, good)
    assert groups.effects() == [ids[0], ids[2]]


def test_a_savepoint_left_by_one_is_nothing_to_the_next(groups: Groups) -> None:
    """Who goes back to a savepoint that it did not open does not reach into its predecessor."""

    def leaves(tx: Tx, task: Task) -> None:
        tx.execute("savepoint a")
        good(tx, task)

    def takes(tx: Tx, task: Task) -> None:
        tx.execute("rollback to savepoint a")

    ids = groups.run(leaves, takes, good)
    assert groups.left(ids) == {1: ("scheduled", 1, "psycopg.errors.InvalidSavepointSpecification")}
    assert groups.effects() == [ids[0], ids[2]]


def test_a_savepoint_by_another_way_is_nothing_to_the_next(groups: Groups) -> None:
    """A block that was entered and never left, and a statement that does not tell its text."""

    blocks = []

    def enters(tx: Tx, task: Task) -> None:
        blocks.append(tx.transaction("a"))
        blocks[0].__enter__()
        good(tx, task)

    def takes(tx: Tx, task: Task) -> None:
        tx.execute("rollback to a")

    def hides(tx: Tx, task: Task) -> None:
        tx.execute(Hidden("savepoint a"))
        good(tx, task)

    ids = groups.run(enters, takes, good, hides, takes, good)
    with suppress(psycopg.Error):  # it is not the block that the connection is in
        blocks[0].__exit__(None, None, None)
    assert sorted(groups.left(ids)) == [1, 4]
    assert groups.effects() == [ids[0], ids[2], ids[3], ids[5]]


class Hidden(psycopg.sql.SQL):
    """Tells its text to the server only."""

    def as_string(self, context: Any = None) -> str:
        raise ValueError("not to everybody")


def test_deeper_than_savepoints_are_nested(groups: Groups) -> None:
    """Some are released together; those that fail around there undo nobody else."""
    size = 3 * DEEPEST
    bad = {DEEPEST - 1, DEEPEST, DEEPEST + 1, 2 * DEEPEST + 2}
    members = [raises if place in bad else good for place in range(size)]
    members[5] = silent
    ids = groups.run(*members)
    assert set(groups.left(ids)) == bad
    assert groups.effects() == [ids[place] for place in range(size) if place not in bad | {5}]


def test_what_one_leaves_on_the_connection_is_nothing_to_the_next(groups: Groups) -> None:
    def leaves(tx: Tx, task: Task) -> None:
        tx.row_factory = dict_row
        tx.prepare_threshold = None
        tx.add_notice_handler(print)
        good(tx, task)

    def takes(tx: Tx, task: Task) -> None:
        assert tx.execute("select 1").fetchone() == (1,)
        assert tx.prepare_threshold == 5
        good(tx, task)

    ids = groups.run(leaves, takes)
    assert groups.left(ids) == {}
    assert groups.effects() == ids


@pytest.mark.parametrize("setting", ["set work_mem = '1MB'", "set local work_mem = '1MB'"])
def test_who_changes_the_session_is_the_last_of_its_group(groups: Groups, setting: str) -> None:
    """It is put back before the next one runs."""

    def leaves(tx: Tx, task: Task) -> None:
        good(tx, task)
        tx.execute(setting)

    ids = groups.run(good, leaves, good)
    assert groups.returned is not None
    assert groups.returned.task_id == ids[2]
    assert groups.effects() == ids[:2]
    groups.bench.conn.restore()
    assert groups.bench.conn.execute("show work_mem").fetchone() == ("4MB",)
