"""A worker's tie to its parent: the lease's end on this clock, the kernel timer, and the orders.

A small thread reads the control pipe, because the main thread is in the handler. It re-arms the timer
at each extension; at the end of the pipe, when the parent is gone, it kills the whole group.
"""

import os
import signal
import threading

from ..clock import now
from ..kernel import DeathTimer
from ..wire import ORDER_SIZE, Order, unpack_orders
from .lease import OwnLease


class Lifeline:
    """Shared by the main thread and the control thread; each step is a single assignment."""

    def __init__(self, control: int, usable_seconds: float, *, timer: bool = True) -> None:
        self._control = control
        self._timer = DeathTimer(enabled=timer)
        self._lock = threading.Lock()
        self._lease = OwnLease(usable_seconds)
        self.stopping = False
        self.nudge, self._nudge_write = os.pipe()  # readable when an order came
        os.set_blocking(self.nudge, False)
        os.set_blocking(self._nudge_write, False)

    def start(self) -> None:
        """Begin to listen to the parent."""
        threading.Thread(target=self._listen, name="lifeline", daemon=True).start()

    # -- the main thread --------------------------------------------------------------------------

    def forget(self) -> None:
        """A new identity: nothing of the old one's lease counts."""
        with self._lock:
            self._lease.forget()
            self._set_timer()

    def join(self) -> None:
        """The new identity is registered, and about to be announced."""
        with self._lock:
            self._lease.join(now())

    def may_claim(self) -> bool:
        """Whether a claim made now has at least half of a lease in front of it."""
        return self._lease.may_claim(now())

    def hold(self) -> None:
        """Something is about to be held: from now on the lease's end is this process's end."""
        with self._lock:
            self._lease.holding = True
            self._set_timer()

    def let_go(self) -> None:
        """Nothing is held any more."""
        with self._lock:
            self._lease.holding = False
            self._set_timer()

    def _set_timer(self) -> None:
        if (at := self._lease.ends_us_at) is None:
            self._timer.disarm()
        else:
            self._timer.arm(at)

    def clear_nudges(self) -> None:
        """Take the bytes that say that an order came."""
        try:
            os.read(self.nudge, 4096)
        except BlockingIOError:
            pass

    # -- the control thread -----------------------------------------------------------------------

    def _listen(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        os.set_blocking(self._control, True)
        while data := os.read(self._control, 64 * ORDER_SIZE):
            for order, at, _, _ in unpack_orders(data):
                self._obey(order, at)
        os.killpg(0, signal.SIGKILL)

    def _obey(self, order: Order, at: float) -> None:
        if order is Order.EXTEND:
            with self._lock:
                waited_for = not self.may_claim()
                self._lease.extend(at)
                if self._lease.holding:
                    self._set_timer()
            if not waited_for:
                return  # nobody who idles need wake for it
        elif order is Order.STOP:
            self.stopping = True
        try:
            os.write(self._nudge_write, b".")
        except BlockingIOError:
            pass
