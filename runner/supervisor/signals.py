"""Signals to the parent: a trap does nothing but leave a byte for the loop to read."""

import os
import signal
from collections.abc import Iterator

_STOPS = (signal.SIGTERM, signal.SIGINT)
_HANDLED = (*_STOPS, signal.SIGHUP, signal.SIGCHLD, signal.SIGTSTP)


class Traps:
    """Holds the traps for as long as the loop runs; `fd` turns readable when a signal came."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)
        self._stopped = False
        self._before = {number: signal.signal(number, _leave_byte) for number in _HANDLED}
        self._before_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def read(self) -> Iterator[signal.Signals]:
        """The signals since the last call, in their order."""
        try:
            for number in os.read(self.fd, 4096):
                self._stopped = self._stopped or number in _STOPS
                yield signal.Signals(number)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Give the signals back; but whoever was told to stop has stopped, and hears no more of it.

        One that came now would end the command by its default, with another exit code than is due.
        """
        signal.set_wakeup_fd(self._before_fd)
        for number, handler in self._before.items():
            done = self._stopped and number in _STOPS
            signal.signal(number, signal.SIG_IGN if done else handler)
        os.close(self.fd)
        os.close(self._write)


def _leave_byte(number: int, frame: object) -> None:
    """Python has written the number to the wakeup descriptor before this is called."""
