"""The fleet whose console this is: what its parent says and sends, and how it is stopped."""

import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

from .. import kernel
from ..clock import now
from ..loglines import LogReader
from ..wire import EventWriter, Kind, Order, unpack_orders
from .snapshot import Record

LARGEST_FEED = 1 << 19  # bytes
ALIVE_SECONDS = 2.0


@dataclass
class Fleet:
    """The ends of its pipes. `parent`: a pid."""

    feed: socket.socket
    log: LogReader
    format: Callable[[Record], str]
    control: int
    events: EventWriter
    parent: int
    grace_seconds: float
    alive_at: float = 0.0
    parent_died: bool = False

    def orders(self) -> list[Order]:
        """What the parent has said; STOP as well when it is gone."""
        data = os.read(self.control, 4096)
        self.parent_died = not data
        return [one[0] for one in unpack_orders(data)] if data else [Order.STOP]

    def newest(self) -> Record | None:
        """The last message of the parent since, with the memory of its workers."""
        newest = None
        with contextlib.suppress(OSError):
            while data := self.feed.recv(LARGEST_FEED):
                newest = data
        if newest is None:
            return None
        told: Record = json.loads(newest)
        for one in told["workers"]:
            one["rss"] = kernel.rss_of(one["pid"])
        return told

    def say_alive(self) -> None:
        """Now and then."""
        if now() - self.alive_at > ALIVE_SECONDS:
            self.alive_at = now()
            self.events.send(Kind.ALIVE)

    def stop(self) -> None:
        """Have the parent stop, as by a signal; twice: at once."""
        if os.getppid() == self.parent:  # else it is gone, and its number perhaps somebody's
            os.kill(self.parent, signal.SIGTERM)
