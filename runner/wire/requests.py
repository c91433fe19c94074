"""Requests: what the parent asks of the renewer, over a SEQPACKET socket, which keeps their borders."""

import enum
import struct
from dataclasses import dataclass

from .tokens import Token, pack_tokens, unpack_tokens


class How(enum.IntEnum):
    """Why a claim is settled by somebody else than its worker."""

    DIED = 1  # in its handler, of its own: charged
    LEASE_LOST = 2  # killed because its lease ended: refunded, with a backoff
    STOPPED = 3  # by a stop: refunded, ready at once
    DISCONNECTED = 4  # its connection broke: refunded, with a backoff
    SWEPT = 5  # found by a sweep, nobody knows whether it had started: refunded, solo from then on


@dataclass(slots=True, frozen=True)
class Renewal:
    """One worker in a renewal request: what it runs, to be looked at, and what its row shows."""

    worker: bytes
    task: int = 0  # 0: nothing, or nothing that it is not just ending itself
    fence: int = 0
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
    sent: int = 0  # the task before that, whose COMMIT it had sent; 0: its end is known
    type: int = 0  # number of the type of the task that it had begun; stays with the parent
    seconds: float = 0.0  # for how long that had run; stays with the parent
    sent_seconds: float = 0.0  # and the one before; stays with the parent

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
_RENEWAL = struct.Struct("<16sqqqqq")
_SETTLE = struct.Struct("<c16sBqqqHH")
_HAND_BACK = struct.Struct("<c16sqH")
CAUSE_BYTES = 500
POST_MORTEM_BYTES = 16_000


def pack_renew(asked_at: float, renewals: list[Renewal]) -> bytes:
    """A request to renew these workers, asked at this local time."""
    body = [_RENEWAL.pack(r.worker, r.task, r.fence, r.done, r.failed, r.rss) for r in renewals]
    return _RENEW_HEAD.pack(b"R", asked_at) + b"".join(body)


def pack_settle(settle: Settle) -> bytes:
    """A request to settle one dead worker."""
    cause = settle.cause.encode("utf-8", "backslashreplace")[:CAUSE_BYTES]
    text = (settle.post_mortem or "").encode("utf-8", "backslashreplace")[:POST_MORTEM_BYTES]
    head = (b"S", settle.worker, settle.how, settle.task, settle.fence, settle.sent)
    return _SETTLE.pack(*head, len(cause), len(text)) + cause + text + pack_tokens(settle.done)


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
            _, worker, how, task, fence, sent, size, more = _SETTLE.unpack_from(data)
            middle = _SETTLE.size + size
            cause = data[_SETTLE.size : middle].decode("utf-8", "ignore")
            text = data[middle : middle + more].decode("utf-8", "ignore") or None
            done = tuple(unpack_tokens(data[middle + more :]))
            return Settle(worker, How(how), task, fence, cause, text, done, sent)
        case b"H":
            _, worker, number, count = _HAND_BACK.unpack_from(data)
            tokens = unpack_tokens(data[_HAND_BACK.size :])
            return HandBack(worker, number, tuple(tokens[:count]), tuple(tokens[count:]))
    raise ValueError("not a request")
