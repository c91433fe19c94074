"""Who acts, as `runner.removed` and `runner.pause` remember it."""

import getpass
import socket

from ..text import safe


def who() -> str:
    """The user of this process, and the host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without such a user
        user = "?"
    return safe(f"{user}@{socket.gethostname()}", 200)
