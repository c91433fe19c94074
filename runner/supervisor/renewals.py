"""The parent's side of renewal: asks the renewer, and remembers what it has not answered.

Requests travel over a SEQPACKET socket that never blocks here; one lost because the renewer is gone or
stuck is asked again of the next one.
"""

import contextlib
import socket
from collections import deque
from collections.abc import Iterable

from .. import kernel
from ..wire import (
    HandBack,
    Renewal,
    Settle,
    Token,
    pack_hand_back,
    pack_renew,
    pack_settle,
)
from .child import Child


class Renewals:
    """The request channel, the workers that are to be settled, and when the next renewal is due."""

    def __init__(self, every_seconds: float) -> None:
        self.parent_end, self.renewer_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.parent_end.setblocking(False)
        self.every_seconds = every_seconds
        self.due_at = 0.0
        self.asked_at: float | None = None  # None: the newest request is answered
        self.unsettled: dict[bytes, Settle] = {}
        self.unhanded: dict[int, HandBack] = {}
        self._unsent: deque[bytes] = deque()  # for want of room
        self._number = 0
        self._stopped: set[int] = set()

    def ask(self, children: Iterable[Child], others: Iterable[bytes], now: float) -> None:
        """Ask for these workers, and for other leased rows, to be renewed. With none of them as well:
        else nobody would notice that the database does not answer."""
        renewals = [
            _renewal_of(child) for child in children if child.registered and self._may_live(child)
        ]
        renewals += [Renewal(worker) for worker in others]
        self.due_at = now + self.every_seconds
        while self._unsent and self._send(self._unsent[0]):
            self._unsent.popleft()
        if self._send(pack_renew(now, renewals)):
            self.asked_at = self.asked_at or now

    def _may_live(self, child: Child) -> bool:
        # Renewing a child that has been stopped (SIGSTOP) since the last round would keep it alive,
        # and its task from others, for ever.
        was_stopped = child.pid in self._stopped
        if kernel.state_of(child.pid) == "T":
            self._stopped.add(child.pid)
            return not was_stopped
        self._stopped.discard(child.pid)
        return True

    def answered(self) -> None:
        """The renewer is through with the newest request."""
        self.asked_at = None

    def settle(self, settle: Settle) -> None:
        """Have a dead worker's claims ended; kept until `settled`."""
        self.unsettled[settle.worker] = settle
        self._have_done(pack_settle(settle))

    def hand_back(self, worker: bytes, tokens: Iterable[Token], done: Iterable[Token]) -> None:
        """Have tokens of a living worker given back, and what it is through with deleted; kept until
        `handed`."""
        self._number += 1
        back = HandBack(worker, self._number, tuple(tokens), tuple(done))
        self.unhanded[back.number] = back
        self._have_done(pack_hand_back(back))

    def handed(self, number: int) -> None:
        """The renewer has done it."""
        self.unhanded.pop(number, None)

    def settled(self, worker: bytes) -> Settle | None:
        """The renewer has done it; what it was asked."""
        return self.unsettled.pop(worker, None)

    def start_over(self) -> None:
        """A new renewer has come up: it knows of nothing."""
        self.asked_at = None
        self.due_at = 0.0
        self._unsent.clear()
        for back in self.unhanded.values():
            self._have_done(pack_hand_back(back))
        for settle in self.unsettled.values():
            self._have_done(pack_settle(settle))

    def forget_renewer(self, dead: Child) -> None:
        """If the dead was the renewer, throw away what it has not read."""
        if dead.role.name == "renewer":
            self.renewer_end.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while self.renewer_end.recv(1 << 18):
                    pass

    def _have_done(self, request: bytes) -> None:
        """Send it now, or with the next renewal where a renewer that stands still has left no room."""
        if self._unsent or not self._send(request):
            self._unsent.append(request)

    def _send(self, request: bytes) -> bool:
        try:
            self.parent_end.send(request)
        except OSError:  # full: the renewer is not reading, and its silence is watched elsewhere
            return False
        return True


def _renewal_of(child: Child) -> Renewal:
    work = child.work
    claim = (0, 0) if work is None or work.ending else (work.task, work.fence)
    return Renewal(child.worker, *claim, child.done, child.failed, kernel.rss_of(child.pid))
