"""The log role: reads records from the log pipe and writes them as lines; a reader holds up nobody."""

import os
import select
import sys
import time

from ..loglines import LogReader, as_json, as_text, parents_death
from ..seat import Ends, Seat
from ..sink import Sink, opened_anew
from ..wire import EventWriter, Kind

ALIVE_SECONDS = 5.0
LAST_SECONDS = 2.0  # for what a slow reader has not taken at the end


class Log:
    """Writes to stderr in one of two formats, from a level on."""

    def __init__(
        self, pipe: int, form: str, level: str, seat: Seat, ends: Ends, secret: str | None = None
    ) -> None:
        self.control = ends.control
        self.records = LogReader(pipe, level, secret)
        self.format = as_json if form == "json" else as_text
        self.sink = Sink(opened_anew(sys.stderr.fileno()))
        self.events = EventWriter(ends.events, seat.incarnation)

    def run(self) -> int:
        """Write until the parent says stop or is gone, and then what is still in the pipe."""
        self.events.send(Kind.HELLO)
        stopping = False
        while not stopping:
            stopping = self.wait()
            self.sink.flush()
            if not self.sink.full:
                self.write()
            self.events.send(Kind.ALIVE)
        self.write()
        if not os.read(self.control, 1):  # its end, without an order before
            self.sink.say(self.format(parents_death(time.time())))
        self.sink.drain(LAST_SECONDS)
        return 0

    def wait(self) -> bool:
        """Sleep until there is something to do; True when the parent has said stop or is gone.

        While the reader is behind, the pipe is left to fill: its writers count what they drop.
        """
        reads = [self.control] if self.sink.full else [self.control, self.records.pipe]
        writes = [self.sink.fd] if self.sink.pending else []
        return self.control in select.select(reads, writes, [], ALIVE_SECONDS)[0]

    def write(self) -> None:
        """One line a record. A closed stderr ends the log, not the fleet."""
        for record in self.records.read():
            self.sink.say(self.format(record))
