"""Permits to start a handler: never more starts than were allowed, and none lost with a worker."""

import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from runner.permits import Permits


@pytest.fixture
def three() -> Iterator[Permits]:
    permits = Permits(3, 4)
    yield permits
    for fd in permits.ends.values():
        os.close(fd)


def take_all(permits: Permits, slot: int = 0) -> int:
    """Whatever can be had, kept in one hand."""
    count = 0
    while taken := permits.take(slot):
        count += taken
    permits.take(slot, 0)
    return count


def test_as_many_as_there_are(three: Permits) -> None:
    three.top_up(0, [0])
    assert three.take(0) == 3
    three.top_up(0, [0])
    assert three.take(1) == 0


def test_what_was_given_back_is_taken_again(three: Permits) -> None:
    three.top_up(0, [0])
    assert three.take(0, 1) == 1
    three.give_back(0, 1)
    three.top_up(0, [0])
    assert three.take(1) == 3


def test_what_is_kept_is_not_made_anew(three: Permits) -> None:
    three.top_up(0, [0, 1])
    assert three.take(0) == 3
    three.give_back(0, 2, kept=1)
    for _ in range(3):
        three.top_up(0, [0, 1])
    assert three.take(1) == 2


def test_what_is_in_hands_finds_room_when_it_comes_back() -> None:
    """The parent fills up meanwhile, whatever is still owed."""
    permits = Permits(200_000, 2)
    for _ in range(100):
        permits.top_up(0, [0, 1])
    count = permits.take(0)
    for _ in range(100):
        permits.top_up(0, [0, 1])
    permits.give_back(0, count)
    starts = 0
    for _ in range(2000):
        permits.top_up(starts, [0, 1])
        starts += take_all(permits)
    assert starts == 200_000


def test_what_finds_no_room_is_made_anew() -> None:
    permits = Permits(3, 1)
    permits.top_up(0, [0])
    count = permits.take(0)
    written = 0
    with suppress(BlockingIOError):
        while True:
            written += os.write(permits.ends["permits_back"], b"." * 4096)
    permits.give_back(0, count)
    while written:
        written -= len(os.read(permits.ends["permits"], 4096))
    for _ in range(3):
        permits.top_up(0, [0])
    assert take_all(permits) == 3


def test_more_than_a_pipe_holds() -> None:
    permits = Permits(200_000, 1)
    starts = 0
    for _ in range(500):
        permits.top_up(starts, [0])
        while taken := permits.take(0, 200):
            starts += taken
            permits.give_back(0, 0)
    assert starts == 200_000
    permits.top_up(starts, [0])
    assert permits.take(0) == 0
    for fd in permits.ends.values():
        os.close(fd)


def test_those_that_died_with_a_worker_are_replaced(three: Permits) -> None:
    three.top_up(0, [0, 1])
    assert three.take(0) == 3  # one starts a task, and its worker dies with the other two
    three.forget(0)
    for _ in range(2):
        three.top_up(1, [1])
    assert three.take(1) == 2


def test_none_is_replaced_while_it_is_in_a_hand(three: Permits) -> None:
    three.top_up(0, [0, 1])
    assert three.take(0, 2) == 2
    assert three.take(1, 1) == 1
    for _ in range(3):
        three.top_up(0, [0, 1])
    assert three.take(2) == 0


def test_a_start_that_is_heard_of_late_is_not_replaced(three: Permits) -> None:
    """It began, and its hand was empty again, before the parent heard of it."""
    three.top_up(0, [0])
    three.top_up(0, [0])
    assert three.take(0, 2) == 2
    three.give_back(0, 1)
    three.top_up(0, [0])
    three.top_up(1, [0])
    three.top_up(1, [0])
    assert take_all(three) == 2


def test_when_all_are_used_there_are_no_more(three: Permits) -> None:
    three.top_up(0, [0])
    assert three.take(0) == 3
    three.give_back(0, 0)
    for _ in range(3):
        three.top_up(3, [0])
    assert three.take(0) == 0
