"""How a worker waits, and whom it wakes."""

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.clock import now
from runner.config import FleetConfig
from runner.handling.idling import Idling
from runner.handling.lifeline import Lifeline
from runner.handling.readable import wait_readable
from runner.wire import EventWriter


@dataclass
class Bed:
    """One that idles, with a pipe that wakes it and one of permits."""

    idling: Idling
    wake: tuple[int, int]
    permits: tuple[int, int]

    def bytes_left(self) -> int:
        """In the pipe that wakes."""
        try:
            return len(os.read(self.wake[0], 100))
        except BlockingIOError:
            return 0


@pytest.fixture
def bed() -> Iterator[Bed]:
    wake, permits, control = os.pipe(), os.pipe(), os.pipe()
    sink = os.open(os.devnull, os.O_WRONLY)
    os.set_blocking(wake[0], False)
    lifeline = Lifeline(control[0], 60.0, timer=False)
    config = FleetConfig("", Path(), poll_seconds=1.0)
    idling = Idling(config, EventWriter(sink, 1), lifeline, random.Random(1), *wake)
    yield Bed(idling, wake, permits)
    for fd in (*wake, *permits, *control, sink):
        os.close(fd)


def woken(bed: Bed) -> Idling:
    os.write(bed.wake[1], b".")
    assert bed.idling.idle(0.0, full=False) is True
    assert bed.bytes_left() == 0
    return bed.idling


def test_a_permit_ends_the_wait_of_whoever_had_none(bed: Bed) -> None:
    """It would wait half a minute for its own poll: a permit wakes nobody by another way."""
    os.write(bed.permits[1], b".")
    began = time.monotonic()
    assert bed.idling.idle(0.0, full=False, more=[bed.permits[0]]) is False
    assert time.monotonic() - began < 15


def test_who_may_not_look_takes_no_byte_from_one_who_may(bed: Bed) -> None:
    os.write(bed.wake[1], b".")
    os.write(bed.permits[1], b".")
    assert bed.idling.idle(0.0, full=False, more=[bed.permits[0]]) is False
    assert bed.bytes_left() == 1


def test_who_has_something_put_off_waits_no_longer_than_until_then(bed: Bed) -> None:
    """Its own poll is half a minute away."""
    began = time.monotonic()
    assert bed.idling.idle(0.0, full=False, before=now() + 0.05) is False
    assert 0.05 <= time.monotonic() - began < 15


def test_who_finds_plenty_wakes_the_next(bed: Bed) -> None:
    woken(bed).found(plenty=True)
    assert bed.bytes_left() == 1
    bed.idling.found(plenty=True)
    assert bed.bytes_left() == 0, "woken once, it wakes one"


def test_who_finds_little_wakes_nobody(bed: Bed) -> None:
    woken(bed).found(plenty=False)
    bed.idling.hand_on()
    assert bed.bytes_left() == 0


def test_who_does_not_come_to_look_wakes_another(bed: Bed) -> None:
    woken(bed).hand_on()
    assert bed.bytes_left() == 1


def test_who_has_looked_wakes_nobody(bed: Bed) -> None:
    """Woken in vain long ago, and told to stop now."""
    idling = woken(bed)
    os.write(bed.permits[1], b".")
    idling.idle(0.0, full=False, more=[bed.permits[0]])
    idling.hand_on()
    assert wait_readable([bed.wake[0]], 0.0) == []
