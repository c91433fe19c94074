"""The console role: the log's place on a terminal. A live view, or plain lines where that cannot be."""

import os
import socket

from ..config import FleetConfig
from ..loglines import LogReader, as_json, as_text
from ..operating.person import who
from ..seat import Ends, Seat
from ..store.connect import password
from ..terminal import Terminal
from ..wire import EventWriter, Kind


def run_console(
    config: FleetConfig, terminal: Terminal, parent: int, seat: Seat, ends: Ends
) -> int:
    """Show the fleet of process `parent` until it says stop, or is gone."""
    # Here and not above: the parent and the workers have no use for Rich in their memory.
    from ..console.app import App
    from ..console.fleet import Fleet
    from ..console.source import Source

    events = EventWriter(ends.events, seat.incarnation)
    feed = socket.socket(fileno=os.dup(ends.extra["feed"]))
    feed.setblocking(False)
    fleet = Fleet(
        feed,
        LogReader(ends.extra["read"], config.log_level, password(config.dsn)),
        as_json if config.log_format == "json" else as_text,
        ends.control,
        events,
        parent,
        config.grace_seconds,
    )
    app = App(terminal, Source(config.dsn, who()), fleet)
    events.send(Kind.HELLO)
    app.run()
    return 0
