"""The terminal: taken for the live view, and given back as it was, by whoever is left to do it."""

import contextlib
import mmap
import os
import termios
from typing import Any, TextIO

from .sink import Sink, opened_anew

# Leave the alternate screen, show the cursor, end colours: in the order in which they were taken.
LEAVE = b"\x1b[0m\x1b[?25h\x1b[?1049l"
LFLAG, CC = 3, 6  # places in what termios.tcgetattr gives
LAST_SECONDS = 0.5
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
SMALLEST = (21, 6)  # columns and lines below which plain lines are more use


def is_terminal(stream: TextIO) -> bool:
    """Whether a person sees what is written to a stream, or types what is read; a closed one is none."""
    try:
        return stream.isatty()
    except ValueError:
        return False


class Terminal:
    """A terminal on descriptor `fd`, as it is now. Made before the fork, so that parent and console
    know what to go back to, and share whether it is taken."""

    def __init__(self, fd: int) -> None:
        self._given = fd
        self._before = termios.tcgetattr(fd)
        self._ours: list[Any] | None = None
        self._taken = mmap.mmap(-1, 1)  # shared with those who are forked from here
        self.fd = -1
        self.sink = Sink(-1)

    @property
    def taken(self) -> bool:
        """Whether somebody took it, and has not given it back."""
        return self._taken[0] == 1

    def open(self) -> None:
        """A description of its own that never blocks; for the process that shows the view."""
        self.fd = opened_anew(self._given, os.O_RDWR)
        self.sink = Sink(self.fd)

    def size(self) -> tuple[int, int]:
        """Columns and lines, now."""
        with contextlib.suppress(OSError, ValueError):
            columns, lines = os.get_terminal_size(self.fd if self.fd >= 0 else self._given)
            if columns > 0 and lines > 0:
                return columns, lines
        return 80, 24

    def in_foreground(self) -> bool:
        """Whether the shell has given it to our group; a terminal that is nobody's is ours."""
        try:
            return os.tcgetpgrp(self.fd) in (os.getpgrp(), 0)
        except OSError:
            return False

    def take(self) -> None:
        """Keys come one by one and are not shown; signals and flow control stay."""
        self._taken[0] = 1
        with contextlib.suppress(termios.error):
            wanted = termios.tcgetattr(self.fd)
            wanted[LFLAG] &= ~(termios.ECHO | termios.ICANON)
            wanted[CC][termios.VMIN], wanted[CC][termios.VTIME] = 1, 0
            termios.tcsetattr(self.fd, termios.TCSANOW, wanted)
            self._ours = termios.tcgetattr(self.fd)

    def leave(self, seconds: float) -> None:
        """Leave the screen; waits at most so long for a terminal that does not read."""
        _go_on(self.fd)
        # A frame that is cut short ends in the middle of a sequence: so what is begun goes first.
        self.sink.write(LEAVE)
        self.sink.drain(seconds)
        self._give_back()

    def _give_back(self) -> None:
        """As it was; unless somebody else, a shell, has set it meanwhile."""
        with contextlib.suppress(termios.error):
            if self._ours is None or termios.tcgetattr(self.fd) == self._ours:
                termios.tcsetattr(self.fd, termios.TCSANOW, self._before)
        self._ours = None
        self._taken[0] = self.sink.pending  # what it has not read, the parent may try again

    def read(self) -> bytes:
        """What was typed; nothing when nothing was, or it is gone."""
        try:
            return os.read(self.fd, 4096)
        except OSError:
            return b""

    def rescue(self) -> None:
        """Whoever had taken it is dead: leave its screen, and set it as it was."""
        if not self.taken:
            return
        with contextlib.suppress(OSError):
            fd = opened_anew(self._given)
            _go_on(fd)
            sink = Sink(fd)
            sink.write(LEAVE)
            sink.drain(LAST_SECONDS)
            os.close(fd)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._given, termios.TCSANOW, self._before)
        self._taken[0] = 0


def _go_on(fd: int) -> None:
    """End a Ctrl-S: what stops by it can be started only by what stops by tcflow, too."""
    with contextlib.suppress(termios.error):
        termios.tcflow(fd, termios.TCOOFF)
        termios.tcflow(fd, termios.TCOON)


def terminal_for(fd: int) -> Terminal | None:
    """The terminal on a descriptor, if it is one that can be drawn on."""
    try:
        if not os.isatty(fd) or os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
            return None
        return Terminal(fd)
    except (OSError, termios.error):
        return None


def wants_plain_lines(terminal: Terminal) -> bool:
    """Whether nobody has asked for a live view and little speaks for one: output piped to somebody who
    may use the terminal too, no colours wanted, no characters for it, no room."""
    columns, lines = terminal.size()
    small = columns < SMALLEST[0] or lines < SMALLEST[1]
    return small or not _is_terminal(1) or bool(os.environ.get("NO_COLOR")) or not speaks_unicode()


def speaks_unicode() -> bool:
    """Whether the terminal shows more than ASCII, as the user's own locale says.

    Python puts C.UTF-8 in the place of the C locale, and into LC_CTYPE: that was not the user.
    """
    ctype = os.environ.get("LC_CTYPE")
    ctype = None if ctype in _COERCED else ctype
    named = os.environ.get("LC_ALL") or ctype or os.environ.get("LANG") or ""
    return "utf" in named.lower().replace("-", "")


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False
