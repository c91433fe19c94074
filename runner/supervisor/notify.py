"""What the service manager is told, over a datagram socket that never holds us up (`sd_notify`)."""

import contextlib
import os
import socket
from collections.abc import MutableMapping

Environment = MutableMapping[str, str]


class Notify:
    """Tells that the fleet is ready, alive, reloading or stopping; silent where nobody asked for it.

    The variables are taken out of the environment: they are for the parent, not for what handlers start.
    """

    def __init__(self, environment: Environment = os.environ) -> None:
        self._address = _address(environment.pop("NOTIFY_SOCKET", ""))
        self._every_seconds = _watchdog_seconds(environment)
        self._socket: socket.socket | None = None
        self._told_alive_at = float("-inf")
        self._told: set[str] = set()

    def open(self) -> None:
        """Get ready to tell; for the parent alone, before it forks."""
        if self._address is not None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)

    def close(self) -> None:
        """Tell nothing more."""
        if self._socket is not None:
            self._socket.close()

    def ready(self, text: str) -> None:
        """The fleet works."""
        if "READY" not in self._told:
            self._told.add("READY")
            self._send(f"READY=1\nSTATUS={text}")

    def alive(self, now: float) -> None:
        """We are alive; twice as often as it is asked for."""
        if self._every_seconds is not None and now - self._told_alive_at >= self._every_seconds:
            self._told_alive_at = now
            self._send("WATCHDOG=1")

    def stopping(self, text: str) -> None:
        """The fleet is coming to its end."""
        if "STOPPING" not in self._told:
            self._told.add("STOPPING")
            self._send(f"STOPPING=1\nSTATUS={text}")

    def _send(self, message: str) -> None:
        if self._socket is not None and self._address is not None:
            with contextlib.suppress(OSError):
                self._socket.sendto(message.encode(), self._address)


def _address(path: str) -> str | None:
    """The socket's address; a leading @ stands for the abstract name space."""
    if path[:1] not in ("/", "@"):
        return None
    return "\0" + path[1:] if path.startswith("@") else path


def _watchdog_seconds(environment: Environment) -> float | None:
    """Half of what the service manager waits for a sign of life; None where it does not watch us."""
    pid, microseconds = environment.pop("WATCHDOG_PID", ""), environment.pop("WATCHDOG_USEC", "")
    if not microseconds.isdigit() or (pid and pid != str(os.getpid())):
        return None
    return int(microseconds) / 2e6
