"""What the parent tells its console: who is there and what they do, a few times a second.

A datagram that is not read in time is dropped: the next one says it all again.
"""

import contextlib
import json
import socket
from typing import Any
from uuid import UUID

from ..clock import now
from .child import Child
from .course import Course
from .family import Family

EVERY_SECONDS = 0.25
LARGEST = 1 << 19  # bytes; enough for some thousand children


class Feed:
    """The parent's end, and the console's."""

    def __init__(self, runner_id: UUID) -> None:
        self.runner_id = runner_id
        self._out, self.console_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._out, self.console_end):
            end.setblocking(False)
        self._out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST)
        self._sent_at = 0.0

    def send(self, family: Family, course: Course) -> None:
        """Tell how things are, unless that was told a moment ago."""
        at = now()
        if at - self._sent_at < EVERY_SECONDS:
            return
        self._sent_at = at
        message = json.dumps(told(self.runner_id, family, course, at)).encode()
        with contextlib.suppress(OSError):
            self._out.send(message)


def told(runner_id: UUID, family: Family, course: Course, at: float) -> dict[str, Any]:
    """The message: times are local ones, of the same clock in parent and console."""
    view = course.view
    return {
        "at": at,
        "runner": str(runner_id),
        "started_at": view.started_at,
        "stopping": course.reason if course.stop is not None else None,
        "away_since": view.database_away_since,
        "starts": view.starts,
        "tally": {outcome.name.lower(): count for outcome, count in view.tally.items()},
        "deaths": course.deaths,
        "last_death": course.last_death,
        "helpers": {one.name: one.pid for one in family if not one.role.holds_leases},
        "workers": [_worker(one) for one in family.workers()],
    }


def _worker(child: Child) -> dict[str, Any]:
    work = child.work
    return {
        "slot": child.slot,
        "pid": child.pid,
        "ready": child.registered,
        "stopping": child.stopping,
        "deadline": child.deadline,
        "done": child.done,
        "failed": child.failed,
        "task": work and work.task,
        "started_at": work and work.started_at,
        "limit_at": work and work.limit_at,
        "progress": work and work.progress,
    }
