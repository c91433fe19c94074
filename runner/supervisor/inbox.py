"""The event pipe, read in bulk: what children say, in the order in which they said it."""

import os
import time
from collections.abc import Iterator

from ..clock import now
from ..logpipe import LogPipe
from ..wire import Event, EventReader, Kind
from .spawn import set_pipe_size

AT_ONCE = 1 << 18  # bytes of one read
PIPE_SIZE = 1 << 20  # bytes: what children may have said before one of them has to wait
BURST = 2  # events in one read that make the loop pause, so that the next read brings many
PAUSE_SECONDS = 0.0005  # for each of them …
LONGEST_PAUSE_SECONDS = 0.010  # … up to this: being woken costs more than an event
COMING_AND_GOING = frozenset(
    (Kind.CLAIMED, Kind.STARTED, Kind.PROGRESS, Kind.ENDING, Kind.DONE, Kind.CLEARED, Kind.FINISHED)
)


class Inbox:
    """The parent's end of the pipe; `busy` while tasks come and go, which may be thousands a second."""

    def __init__(self, fd: int, log: LogPipe) -> None:
        self.fd = fd
        self.busy = False
        self._log = log
        self._reader = EventReader()
        self._strays_told = 0

    def open(self) -> None:
        """From now on no read waits."""
        os.set_blocking(self.fd, False)
        set_pipe_size(self.fd, PIPE_SIZE)

    def read(self) -> Iterator[tuple[Event, float]]:
        """All that was said since the last time, each with the local time at which it was read."""
        self.busy = False
        seen = 0
        full = True
        while full:
            try:
                data = os.read(self.fd, AT_ONCE)
            except BlockingIOError:
                break
            full = len(data) == AT_ONCE
            at = now()
            for event in self._reader.feed(data):
                seen += 1
                self.busy = self.busy or event.kind in COMING_AND_GOING
                yield event, at
        self._tell_strays()
        if self.busy and seen > BURST:
            # The one wait outside the selector, and bounded: no deadline is as fine as this.
            time.sleep(min(seen * PAUSE_SECONDS, LONGEST_PAUSE_SECONDS))

    def _tell_strays(self) -> None:
        if self._reader.strays > self._strays_told:
            self._strays_told = self._reader.strays
            self._log.warning("stray", "bad bytes on the event pipe were skipped")
