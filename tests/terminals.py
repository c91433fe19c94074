"""A terminal for tests: a pseudo-terminal with a session of its own, and the screen that it would show.

The screen is read by pyte, which knows what the sequences do; the bytes are kept as well.
"""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyte


class Pty:
    """One terminal and the command on it. Nothing is read but in `pump` and what calls it."""

    def __init__(self, columns: int, lines: int) -> None:
        self.master, self.slave = pty.openpty()
        self.before = termios.tcgetattr(self.slave)
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.sent = b""
        self.closed = False
        self.resize(columns, lines)
        self.process: subprocess.Popen[bytes] | None = None

    def start(
        self, command: Sequence[str], cwd: Path, env: dict[str, str]
    ) -> "subprocess.Popen[bytes]":
        """Run a command with the terminal as its own, in its foreground."""
        self.process = subprocess.Popen(
            command,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            cwd=cwd,
            env=env,
            start_new_session=True,
            preexec_fn=self._own_terminal,
        )
        return self.process

    def _own_terminal(self) -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def resize(self, columns: int, lines: int) -> None:
        """The terminal has another size from now on; its foreground hears of it."""
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)
        self.screen.resize(lines, columns)

    def pump(self, seconds: float = 0.0) -> None:
        """Read what has been sent, and for so long what still comes."""
        end = time.monotonic() + seconds
        while (
            not self.closed
            and select.select([self.master], [], [], max(0.0, end - time.monotonic()))[0]
        ):
            try:
                data = os.read(self.master, 65536)
            except OSError:  # the last one who had it open is gone
                return
            self.sent += data
            self.stream.feed(data)

    def _sent_before(self, end: float) -> bool:
        left = max(0.0, end - time.monotonic())
        return bool(select.select([self.master], [], [], left)[0])

    def text(self) -> str:
        """What stands on the screen."""
        self.pump()
        return "\n".join(line.rstrip() for line in self.screen.display)

    def type(self, keys: str) -> None:
        """Type this."""
        os.write(self.master, keys.encode())

    def wait_for(self, *texts: str, gone: bool = False, seconds: float = 40.0) -> str:
        """Until all of these are on the screen (or none of them is); the screen."""
        end = time.monotonic() + seconds
        while True:
            shown = self.text()
            there = [one in shown for one in texts]
            if not any(there) if gone else all(there):
                return shown
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {texts}\n{shown}")
            self.pump(0.02)

    def modes(self) -> list[object]:
        """How the terminal is set."""
        return termios.tcgetattr(self.slave)

    def is_as_before(self) -> bool:
        """Whether it is set as it was, its cursor is seen, and the alternate screen was left."""
        self.pump()
        left = self.sent.rfind(b"\x1b[?1049l") >= self.sent.rfind(b"\x1b[?1049h")
        seen = self.sent.rfind(b"\x1b[?25h") >= self.sent.rfind(b"\x1b[?25l")
        return left and seen and self.modes() == self.before

    def end(self, timeout: float = 20.0) -> int:
        """Wait for the command, reading on; its exit code."""
        assert self.process is not None
        limit = time.monotonic() + timeout
        while self.process.poll() is None:
            assert time.monotonic() < limit, f"does not end:\n{self.text()}"
            self.pump(0.02)
        self.pump()
        return self.process.returncode

    def close(self) -> None:
        """Kill what is still there."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.end(15)
            except AssertionError:
                self.process.kill()
                self.process.wait()
        self.pump()
        self.closed = True
        os.close(self.master)
        os.close(self.slave)


@contextmanager
def terminal(
    command: Sequence[str], cwd: Path, env: dict[str, str], columns: int = 100, lines: int = 34
) -> Iterator[Pty]:
    """A command on a terminal of its own."""
    with bare_terminal(columns, lines) as one:
        one.start(command, cwd, {"TERM": "xterm-256color", "LANG": "C.UTF-8"} | env)
        yield one


@contextmanager
def bare_terminal(columns: int = 100, lines: int = 34) -> Iterator[Pty]:
    """A terminal with nothing on it yet."""
    one = Pty(columns, lines)
    try:
        yield one
    finally:
        one.close()
