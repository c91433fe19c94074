"""What travels between the processes of a fleet, byte by byte.

Events share one pipe with many writers, so each is one fixed-size record far below PIPE_BUF: the
kernel writes it whole or not at all, without a lock that a killed process could hold. Requests to the
renewer travel over a SEQPACKET socket, which keeps their borders. Log records are JSON lines of at
most PIPE_BUF bytes on a pipe of their own.
"""

import enum
import math
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

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
    HELD = 14  # one running row of a renewed worker [worker, task, fence, at = asked at]
    LOST = 15  # the worker's row is gone [worker]
    SETTLED = 16  # a dead worker's claims are dealt with [worker, task, flag = Outcome]
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


class How(enum.IntEnum):
    """Why a claim is settled by somebody else than its worker."""

    DIED = 1  # in its handler, of its own: charged
    LEASE_LOST = 2  # killed because its lease ended: refunded, with a backoff
    STOPPED = 3  # by a stop: refunded, ready at once
    DISCONNECTED = 4  # its connection broke: refunded, with a backoff
    SWEPT = 5  # found by a sweep, nobody knows whether it had started: refunded, solo from then on


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


class Order(enum.IntEnum):
    """What the parent tells a child over its control pipe."""

    EXTEND = 1  # the lease lasts until [at]
    STOP = 2  # claim nothing more; leave when the work in hand is done
    LOOK = 3  # look for work now, fully
    IDLE = 4  # to the maintainer: so many workers of a set of queues are idle [group, count]
    SUSPEND = 5  # to the console: give the terminal back, the parent is about to stop
    RESUME = 6  # to the console: the parent goes on


_ORDER = struct.Struct("<HHId")
ORDER_SIZE = _ORDER.size


def pack_order(order: Order, at: float = 0.0, *, group: int = 0, count: int = 0) -> bytes:
    """The record of an order, ORDER_SIZE bytes."""
    return _ORDER.pack(order, group, count, at)


def unpack_orders(data: bytes) -> Iterator[tuple[Order, float, int, int]]:
    """The whole orders in `data` as (order, at, group, count); one writer, so never torn."""
    for order, group, count, at in _ORDER.iter_unpack(data[: len(data) // ORDER_SIZE * ORDER_SIZE]):
        yield Order(order), at, group, count


class Token(NamedTuple):
    """A claimed task that has not begun. Whoever reads it from the hand-off pipe has the task."""

    task_id: int
    fence: int


_TOKEN = struct.Struct("<qq")
TOKEN_SIZE = _TOKEN.size
MOST_TOKENS = 4096 // TOKEN_SIZE  # more would not be written in one piece


def pack_tokens(tokens: Iterable[Token]) -> bytes:
    """Their records, one behind the other; whole as long as there are at most MOST_TOKENS."""
    return b"".join(_TOKEN.pack(*token) for token in tokens)


def unpack_tokens(data: bytes) -> list[Token]:
    """The tokens in `data`; each is read whole, because every reader reads whole ones."""
    return [Token(*one) for one in _TOKEN.iter_unpack(data)]


@dataclass(slots=True, frozen=True)
class Renewal:
    """One worker in a renewal request, with the counts that its row shows."""

    worker: bytes
    done: int = 0
    failed: int = 0
    rss: int = 0  # bytes


@dataclass(slots=True, frozen=True)
class Settle:
    """What the parent knows of a dead worker: what it had started, and how it ended."""

    worker: bytes
    how: How
    task: int = 0  # 0: it had started nothing
    fence: int = 0
    cause: str = ""
    post_mortem: str | None = None  # where its handler stood
    done: tuple[Token, ...] = ()  # begun, through, and not deleted yet
    type: int = 0  # number of the type of the task that it had begun; stays with the parent
    seconds: float = 0.0  # for how long that had run; stays with the parent

    @property
    def begun(self) -> Token:
        """The claim that it had begun."""
        return Token(self.task, self.fence)


@dataclass(slots=True, frozen=True)
class HandBack:
    """Tokens that the parent took from a living worker: ready again; and its DONE, to be deleted."""

    worker: bytes
    number: int
    tokens: tuple[Token, ...]
    done: tuple[Token, ...]


_RENEW_HEAD = struct.Struct("<cd")
_RENEWAL = struct.Struct("<16sqqq")
_SETTLE = struct.Struct("<c16sBqqHH")
_HAND_BACK = struct.Struct("<c16sqH")
CAUSE_BYTES = 500
POST_MORTEM_BYTES = 16_000


def pack_renew(asked_at: float, renewals: list[Renewal]) -> bytes:
    """A request to renew these workers, asked at this local time."""
    body = [_RENEWAL.pack(r.worker, r.done, r.failed, r.rss) for r in renewals]
    return _RENEW_HEAD.pack(b"R", asked_at) + b"".join(body)


def pack_settle(settle: Settle) -> bytes:
    """A request to settle one dead worker."""
    cause = settle.cause.encode("utf-8", "backslashreplace")[:CAUSE_BYTES]
    text = (settle.post_mortem or "").encode("utf-8", "backslashreplace")[:POST_MORTEM_BYTES]
    head = (b"S", settle.worker, settle.how, settle.task, settle.fence, len(cause), len(text))
    return _SETTLE.pack(*head) + cause + text + pack_tokens(settle.done)


def pack_hand_back(back: HandBack) -> bytes:
    """A request to make claimed tasks of a living worker ready again."""
    head = _HAND_BACK.pack(b"H", back.worker, back.number, len(back.tokens))
    return head + pack_tokens(back.tokens) + pack_tokens(back.done)


def unpack_request(data: bytes) -> tuple[float, list[Renewal]] | Settle | HandBack:
    """What a request to the renewer says; ValueError for anything else."""
    match data[:1]:
        case b"R":
            _, asked_at = _RENEW_HEAD.unpack_from(data)
            body = data[_RENEW_HEAD.size :]
            return asked_at, [Renewal(*one) for one in _RENEWAL.iter_unpack(body)]
        case b"S":
            _, worker, how, task, fence, size, more = _SETTLE.unpack_from(data)
            middle = _SETTLE.size + size
            cause = data[_SETTLE.size : middle].decode("utf-8", "ignore")
            text = data[middle : middle + more].decode("utf-8", "ignore") or None
            done = tuple(unpack_tokens(data[middle + more :]))
            return Settle(worker, How(how), task, fence, cause, text, done)
        case b"H":
            _, worker, number, count = _HAND_BACK.unpack_from(data)
            tokens = unpack_tokens(data[_HAND_BACK.size :])
            return HandBack(worker, number, tuple(tokens[:count]), tuple(tokens[count:]))
    raise ValueError("not a request")


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

    def defer(self, kind: Kind, *, task: int, fence: int, at: float = 0.0, flag: int = 0) -> None:
        """Have an event written together with the next one, which follows within microseconds."""
        self._deferred += _EVENT.pack(
            _MAGIC, kind, flag, self.incarnation, NO_ID, task, fence, at, 0
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
