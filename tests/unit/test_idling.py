"""How a worker waits."""

import os
import random
import time
from pathlib import Path

from runner.config import FleetConfig
from runner.handling.idling import Idling
from runner.handling.lifeline import Lifeline
from runner.wire import EventWriter


def test_a_permit_ends_the_wait_of_whoever_had_none() -> None:
    """It would wait half a minute for its own poll: a permit wakes nobody by another way."""
    wake, permits = os.pipe(), os.pipe()
    control, sink = os.pipe(), os.open(os.devnull, os.O_WRONLY)
    lifeline = Lifeline(control[0], 60.0, timer=False)
    config = FleetConfig("", Path(), poll_seconds=1.0)
    idling = Idling(config, EventWriter(sink, 1), lifeline, random.Random(1), *wake)
    os.write(permits[1], b".")
    began = time.monotonic()
    assert idling.idle(0.0, full=False, more=[permits[0]]) is False
    assert time.monotonic() - began < 15
    for fd in (*wake, *permits, *control, sink):
        os.close(fd)
