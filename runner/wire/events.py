"""Events: what children tell the parent.

They share one pipe with many writers, so each is one fixed-size record far below PIPE_BUF: the kernel
writes it whole or not at all, without a lock that a killed process could hold.
"""

import enum
import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from select import PIPE_BUF

NO_ID = bytes(16)


class Kind(enum.IntEnum):
    """What an event says; in brackets the fields that carry something."""

    HELLO = 1  # booted, with this identity from now on [worker]
    REGISTERED = 2  # the identity's row is in the database [worker]
    ALIVE = 3
    CLAIMED = 4  # [task, fence]
    STARTED = 5  # the handler begins [task, fence, at = limit_at or 0, count = number of its type]
    PROGRESS = 6  # [task, count = done, total in fence]
    ENDING = 7  # precedes every statement that ends a claim [task, fence]
    DONE = 8  # the handler returned and its connection sent nothing [task, fence, at = seconds]
    CLEARED = 19  # so many of the oldest DONE are deleted [count]
    HANDED = 20  # the renewer has given tokens back [count = number of the request]
    FINISHED = 9  # written after COMMIT returned [task, fence, at = seconds, flag = Outcome]
    IDLE = 10  # a look found nothing [at = begun at, flag = 1 for a full look]
    PROMOTED = 11  # [count]
    BACKLOG = 12  # runnable tasks that wait [count, at = looked at]
    RENEWED = 13  # [worker, at = the deadline that follows from it]
    TAKEN = 14  # a renewed worker no longer has this claim [worker, task, fence]
    LOST = 15  # the worker's row is gone [worker]
    # A dead worker's claims are dealt with [worker, task, flag = Outcome, count = the Outcome of `sent`]
    SETTLED = 16
    ANSWERED = 17  # the renewer is through with the newest request
    WORN = 22  # it is to be replaced [count = resident bytes, flag = 1: it begins nothing more]
    SUSPENDED = 21  # the console has given the terminal back
    REFUSED = 18  # could not boot, and a restart will not change that [flag = exit code]


class Outcome(enum.IntEnum):
    """How a claim ended."""

    NONE = 0  # there was nothing to end
    OK = 1
    RETRIED = 2
    DEAD = 3
    RELEASED = 4  # refunded and given back
    SNOOZED = 5
    LOST = 6  # no longer ours: nothing was written


@dataclass(slots=True)
class Event:
    """One record on the event pipe."""

    kind: Kind
    incarnation: int
    worker: bytes = NO_ID
    task: int = 0
    fence: int = 0
    at: float = 0.0
    count: int = 0
    flag: int = 0


_MAGIC = 0xB7E1
_MAGIC_BYTES = struct.pack("<H", _MAGIC)
_EVENT = struct.Struct("<HBBI16sqqdq")
EVENT_SIZE = _EVENT.size


def pack_event(event: Event) -> bytes:
    """The record of an event, EVENT_SIZE bytes."""
    return _EVENT.pack(
        _MAGIC,
        event.kind,
        event.flag,
        event.incarnation,
        event.worker,
        event.task,
        event.fence,
        event.at,
        event.count,
    )


class EventReader:
    """Cuts the byte stream of the event pipe into events; skips what nobody of ours wrote."""

    def __init__(self) -> None:
        self._rest = b""
        self._astray = False  # the bytes just before `_rest` were skipped
        self.strays = 0  # stretches of bytes skipped so far

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that `data` completes. Never raises, whatever the bytes."""
        data = self._rest + data
        at = 0
        while len(data) - at >= EVENT_SIZE:
            event = self._parse(data, at)
            if event is None:
                self.strays += not self._astray
                self._astray = True
                found = data.find(_MAGIC_BYTES, at + 1)
                at = found if found >= 0 else len(data) - 1
            else:
                self._astray = False
                yield event
                at += EVENT_SIZE
        self._rest = data[at:]

    @staticmethod
    def _parse(data: bytes, at: int) -> Event | None:
        magic, kind, flag, incarnation, worker, task, fence, when, count = _EVENT.unpack_from(
            data, at
        )
        if magic != _MAGIC or kind not in _KINDS or math.isnan(when):
            return None
        return Event(_KINDS[kind], incarnation, worker, task, fence, when, count, flag)


_KINDS: dict[int, Kind] = {int(kind): kind for kind in Kind}


class EventWriter:
    """A child's end of the event pipe."""

    def __init__(self, fd: int, incarnation: int) -> None:
        self.fd = fd
        self.incarnation = incarnation
        self._deferred = b""

    def send(
        self,
        kind: Kind,
        *,
        worker: bytes = NO_ID,
        task: int = 0,
        fence: int = 0,
        at: float = 0.0,
        count: int = 0,
        flag: int = 0,
    ) -> None:
        """Write one event, and those deferred, with one system call; waits while the pipe is full.

        A parent that is gone ends this process through its control pipe; here it is quiet.
        """
        head = (_MAGIC, kind, flag, self.incarnation, worker, task)
        try:
            record = _EVENT.pack(*head, fence, at, count)
        except struct.error:  # the progress of a handler may be any number
            record = _EVENT.pack(*head, _bounded(fence), at, _bounded(count))
        records, self._deferred = self._deferred + record, b""
        try:
            os.write(self.fd, records)
        except BrokenPipeError:
            pass

    def defer(
        self,
        kind: Kind,
        *,
        task: int,
        fence: int,
        at: float = 0.0,
        count: int = 0,
        flag: int = 0,
    ) -> None:
        """Have an event written together with the next one, which follows within microseconds."""
        if len(self._deferred) > PIPE_BUF - 2 * EVENT_SIZE:
            self.flush()  # more would not be written in one piece, and a group defers hundreds
        self._deferred += _EVENT.pack(
            _MAGIC, kind, flag, self.incarnation, NO_ID, task, fence, at, count
        )

    def flush(self) -> None:
        """Write what was deferred."""
        records, self._deferred = self._deferred, b""
        if records:
            try:
                os.write(self.fd, records)
            except BrokenPipeError:
                pass


def _bounded(number: float) -> int:
    try:
        return max(-_MOST, min(int(number), _MOST))
    except (TypeError, ValueError, OverflowError):
        return 0


_MOST = 2**63 - 1
