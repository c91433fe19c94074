"""The maintainer while there is no server."""

import os
from typing import Any
from uuid import uuid4

from runner.config import SILENT_SECONDS, FleetConfig
from runner.roles.maintainer import Maintainer
from runner.seat import Ends, Seat


def test_it_waits_for_a_connection_for_less_than_it_may_be_silent() -> None:
    """Else an outage looks as if it hung: it is killed, and that is told as a death."""
    config = FleetConfig("postgresql:///d?host=/nonexistent", "tasks")
    ends = Ends(*os.pipe(), -1, -1)
    no_counts: Any = None
    made = Maintainer(config, uuid4(), [], Seat("maintainer", 0, 1), ends, no_counts)
    with made.open_pool() as pool:
        assert pool.timeout <= SILENT_SECONDS / 2
    for fd in (ends.events, ends.control):
        os.close(fd)
