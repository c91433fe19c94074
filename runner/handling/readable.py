"""Waiting until descriptors turn readable, by oneself or as one of many on the same pipe."""

import select
import sys
from collections.abc import Sequence


def wait_readable(fds: Sequence[int], seconds: float) -> list[int]:
    """The descriptors that turned readable within this time."""
    ready, _, _ = select.select(fds, [], [], max(0.0, seconds))
    return ready


class OneOfMany:
    """Waits on a pipe that other processes wait on as well, and on descriptors of its own.

    By select or poll each byte wakes all who wait, all but one of them in vain: on two cores a third
    of the time from a COMMIT to its handler, taken from the one who came first and from its session.
    epoll wakes one, the eldest of those that wait: so what comes now and then goes to the same worker
    again and again, while its caches are warm. Made after the fork, as children share an epoll.
    """

    def __init__(self, shared: int, *own: int) -> None:
        self._fds = [shared, *own]
        if sys.platform == "linux":
            self._epoll = select.epoll()
            self._epoll.register(shared, select.EPOLLIN | select.EPOLLEXCLUSIVE)
            for fd in own:
                self._epoll.register(fd, select.EPOLLIN)

    def wait(self, seconds: float) -> list[int]:
        """The descriptors that turned readable within this time."""
        if sys.platform == "linux":
            ready = [fd for fd, _ in self._epoll.poll(max(0.0, seconds))]
        else:
            ready = wait_readable(self._fds, seconds)
        return ready
