"""Permits to start a handler: never more starts than were allowed, and none lost with a worker."""

import os
from collections.abc import Iterator

import pytest

from runner.supervisor.child import Child, Work
from runner.supervisor.permits import Permits
from runner.supervisor.role import Role

WORKER = Role("worker", lambda seat, ends: 0, holds_leases=True)


def worker(*, idle: bool = True) -> Child:
    child = Child(WORKER, 0, 1, 1, started_at=0.0, heard_at=0.0, idle=idle)
    if not idle:
        child.work = Work(1, 1, 0.0, None)
    return child


@pytest.fixture
def three() -> Iterator[Permits]:
    permits = Permits(3)
    yield permits
    for fd in permits.ends.values():
        os.close(fd)


def take(permits: Permits) -> bool:
    """What a worker does before it claims."""
    try:
        return bool(os.read(permits.ends["permits"], 1))
    except BlockingIOError:
        return False


def give_back(permits: Permits) -> None:
    os.write(permits.ends["permits_back"], b".")


def take_all(permits: Permits) -> int:
    count = 0
    while take(permits):
        count += 1
    return count


def test_as_many_as_there_are(three: Permits) -> None:
    three.top_up(0, [])
    assert take_all(three) == 3
    three.top_up(0, [worker(idle=False)])
    assert take_all(three) == 0


def test_what_was_given_back_is_taken_again(three: Permits) -> None:
    three.top_up(0, [])
    assert take(three)
    give_back(three)
    assert take_all(three) == 3


def test_more_than_a_pipe_holds() -> None:
    permits = Permits(200_000)
    taken = 0
    for _ in range(200):
        permits.top_up(taken, [worker(idle=False)])
        taken += take_all(permits)
    assert taken == 200_000
    for fd in permits.ends.values():
        os.close(fd)


def test_those_that_died_with_a_worker_are_replaced(three: Permits) -> None:
    three.top_up(0, [])
    assert take_all(three) == 3  # one starts a task, two die with their workers
    three.top_up(1, [worker(), worker()])
    three.top_up(1, [worker(), worker()])
    assert take_all(three) == 2


def test_nothing_is_replaced_while_somebody_works(three: Permits) -> None:
    three.top_up(0, [])
    take_all(three)
    for _ in range(3):
        three.top_up(1, [worker(), worker(idle=False)])
    assert take_all(three) == 0


def test_when_all_are_used_there_are_no_more(three: Permits) -> None:
    three.top_up(0, [])
    take_all(three)
    for _ in range(3):
        three.top_up(3, [worker()])
    assert take_all(three) == 0


@pytest.mark.xfail(
    strict=True,
    reason="a worker that wakes holds a permit for a while before CLAIMED says so; all look idle then,"
    " and the permits it and others hold are made anew: more starts than --max-tasks",
)
def test_a_permit_in_the_hand_of_an_idle_worker_is_not_lost(three: Permits) -> None:
    three.top_up(0, [])
    assert take(three)  # begins to look; its last word was IDLE
    assert take(three)
    assert take(three)
    for _ in range(2):
        three.top_up(0, [worker(), worker(), worker()])
    assert take_all(three) == 0
