"""A pseudo-terminal that a command controls, as a person in front of it sees it."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"  # the cursor
ALTERNATE, BACK = b"\x1b[?1049h", b"\x1b[?1049l"  # the screen


class Tty:
    """Both ends of a terminal; what is written to it is kept in memory and in a file."""

    def __init__(self, copy: Path, columns: int = 100, rows: int = 30) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(columns, rows)
        self.before = self.settings()
        self._shown = bytearray()
        self.copy = copy
        copy.touch()
        self._pump = threading.Thread(target=self._read, daemon=True)
        self._pump.start()

    @property
    def shown(self) -> bytes:
        """Everything that has been written to it."""
        return bytes(self._shown)

    @property
    def text(self) -> str:
        """The same, as text."""
        return self.shown.decode("utf-8", "replace")

    def settings(self) -> list[Any]:
        """Its modes (echo, canonical input …)."""
        return termios.tcgetattr(self.slave)

    def restored(self) -> bool:
        """Whether it is as it was: modes, the cursor on view, the ordinary screen."""
        cursor = self._shown.rfind(SHOW) >= self._shown.rfind(HIDE)
        screen = self._shown.rfind(BACK) >= self._shown.rfind(ALTERNATE)
        return self.settings() == self.before and cursor and screen

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self.master, keys)

    def resize(self, columns: int, rows: int) -> None:
        """Another size; whoever it controls gets SIGWINCH."""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def start(self, command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
        """Start a command whose terminal this is, with all three streams on it."""

        def take() -> None:
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

        streams = {"stdin": self.slave, "stdout": self.slave, "stderr": self.slave}
        return subprocess.Popen(command, preexec_fn=take, **streams, **options)

    def close(self) -> None:
        """Hang up."""
        os.close(self.slave)
        os.close(self.master)
        self._pump.join(5)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # closed, or the last writer is gone
            while data := os.read(self.master, 65536):
                self._shown += data
                with self.copy.open("ab") as copy:
                    copy.write(data)


@contextmanager
def tty(directory: Path, columns: int = 100, rows: int = 30) -> Iterator[Tty]:
    """A terminal for as long as the block lasts."""
    one = Tty(directory / f"tty.{columns}", columns, rows)
    try:
        yield one
    finally:
        one.close()
