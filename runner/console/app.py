"""The loop of the console: keys, log lines, the parent's figures and the database's, and frames.

It waits on nothing but its own `select`: the terminal is written without waiting, the database is asked
by a child. Whatever fails in drawing ends the live view, not the process: log lines go on.
"""

import contextlib
import os
import select
import signal
import socket
import time
from collections import deque

from ..clock import now
from ..loglines import as_text, parents_death
from ..terminal import Terminal, speaks_unicode
from ..text import error_text
from ..wire import Kind, Order
from .deeds import Deeds
from .display import Display
from .fleet import Fleet
from .intake import take_answer, take_feed, take_trouble
from .keys import Keys
from .scene import Scene
from .snapshot import Record
from .source import Source
from .state import State
from .view import render

KEPT_LINES = 1000
LAST_LINES = 30  # of the log, that stay on the terminal after the view
DRAW_SECONDS = 0.1  # at least, between two frames that nobody's key asked for
TICK_SECONDS = 0.25  # how often ages on the screen move on, and the foreground is looked at
ESCAPE_SECONDS = 0.05
LEAVE_SECONDS = 1.0
MOST_FAILURES = 3
TROUBLE_SECONDS = 3.0  # without an answer from the database


class App:
    """One console on one terminal, with a fleet of its own or without."""

    def __init__(self, terminal: Terminal, source: Source, fleet: Fleet | None = None) -> None:
        self.terminal = terminal
        self.source = source
        self.fleet = fleet
        self.log: deque[Record] = deque(maxlen=KEPT_LINES)
        self.scene = Scene(
            State(), host=socket.gethostname(), owns_fleet=fleet is not None, log=self.log
        )
        self.display = Display(terminal)
        self.deeds = Deeds(self.scene, source, fleet, terminal)
        self.keys = Keys()
        self.over = False
        self.suspended = False
        self.failures = 0  # of the view; with one of them, only log lines go on
        self._ready: list[int] = []
        self._held_at = 0.0
        self._unicode = speaks_unicode()
        self._look_at = 0.0
        self._drawn_at = 0.0
        self._stale = True
        self._signals, self._wakeup = os.pipe()

    # -- the story --------------------------------------------------------------------------------

    def run(self) -> None:
        """Show until it is over; the terminal is as it was then, however that came."""
        self.open()
        try:
            while not self.over:
                try:
                    self.turn()
                except Exception as error:
                    self.fail(error)
        finally:
            self.close()

    def turn(self) -> None:
        """One round."""
        self.go_live_or_not()
        self.ask()
        self.draw()
        self.wait()
        self.read()

    def open(self) -> None:
        """Take the signals. In the background everything may be written, and nothing is read."""
        self.terminal.open()
        for fd in (self._signals, self._wakeup):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        for number in (signal.SIGWINCH, signal.SIGTERM, signal.SIGCONT):
            signal.signal(number, _noticed)
        # What these mean to a fleet its parent tells.
        for number in (signal.SIGINT, signal.SIGTSTP, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if self.fleet else _noticed)
        for number in (signal.SIGTTOU, signal.SIGTTIN):
            signal.signal(number, signal.SIG_IGN)

    def close(self) -> None:
        """Leave the screen, and leave there what the log said last."""
        self.source.close()
        was_on = self.display.on
        with contextlib.suppress(Exception):
            self.display.leave(LEAVE_SECONDS)
        if self.fleet is None:
            return
        self.read_log()
        if was_on:
            for record in list(self.log)[-LAST_LINES:]:
                self._write_line(record)
        if self.fleet.parent_died:
            self._write_line(parents_death(time.time()))
        self.terminal.sink.drain(LEAVE_SECONDS)

    # -- one turn ---------------------------------------------------------------------------------

    def go_live_or_not(self) -> None:
        """The screen is ours while our group is in the foreground, and nobody has asked for it."""
        wanted = not self.suspended and not self.failures and self.terminal.in_foreground()
        if wanted and not self.display.on:
            self.display.enter()
            self._stale = True
        elif self.display.on and not wanted:
            self.display.leave(LEAVE_SECONDS)

    def ask(self) -> None:
        """Ask the database anew when it is time."""
        at = now()
        if at >= self._look_at and not self.suspended:
            self._look_at = at + self.scene.state.interval
            self.source.ask({"ask": "look", "interval": self.scene.state.interval})

    def wait(self) -> None:
        """Sleep until something can be read, or a moment has passed."""
        reads: list[int] = [self.terminal.fd, self._signals]
        if not self.display.on or self.terminal.sink.closed:
            reads.remove(self.terminal.fd)
        if self.source.fd is not None:
            reads.append(self.source.fd)
        if self.fleet is not None:
            reads += [self.fleet.control, self.fleet.feed.fileno()]
            if self.display.on or not self.terminal.sink.full:
                reads.append(self.fleet.log.pipe)
        writes = [self.terminal.fd] if self.terminal.sink.pending else []
        seconds = ESCAPE_SECONDS if self.keys.waiting else min(TICK_SECONDS, self._until_look())
        if self._stale and not writes:
            seconds = min(seconds, max(0.0, self._drawn_at + DRAW_SECONDS - now()))
        with contextlib.suppress(OSError, ValueError):
            self._ready = select.select(reads, writes, [], seconds)[0]
            return
        self._ready = []
        time.sleep(0.01)

    def _until_look(self) -> float:
        return max(0.0, self._look_at - now()) if self.source.silent_since is None else TICK_SECONDS

    def read(self) -> None:
        """Take in whatever has come."""
        self.read_signals()
        self.terminal.sink.flush()
        self.read_answers()
        if self.fleet is not None:
            self.read_orders()
            self.read_feed()
            self.read_log()
            self.fleet.say_alive()
        if self.display.on:
            self.read_keys()

    def read_signals(self) -> None:
        """A new size counts at once; TERM, INT and HUP end it; Ctrl-Z gives the terminal back first."""
        with contextlib.suppress(BlockingIOError):
            for number in os.read(self._signals, 4096):
                if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    self.over = True
                elif number == signal.SIGTSTP:
                    self.display.leave(LEAVE_SECONDS)
                    os.kill(os.getpid(), signal.SIGSTOP)
                self.display.redraw()
                self._drawn_at, self._stale = 0.0, True

    def read_orders(self) -> None:
        """The parent ends us, is about to stop, or goes on."""
        assert self.fleet is not None
        if self.fleet.control not in self._ready:
            return
        for order in self.fleet.orders():
            if order is Order.STOP:
                self.over = True
            elif order is Order.SUSPEND:
                self.suspended = True
                self.display.leave(LEAVE_SECONDS / 4)
                self.fleet.events.send(Kind.SUSPENDED)
            elif order is Order.RESUME:
                self.suspended = False

    def read_keys(self) -> None:
        """What was typed counts at once."""
        if self.terminal.fd in self._ready:
            typed = self.keys.feed(self.terminal.read())
        else:
            typed = self.keys.flush()
        for key in typed:
            self._drawn_at, self._stale = 0.0, True
            if key == "redraw":
                self.display.redraw()
            else:
                self.deeds.press(key)
        self.over = self.over or self.deeds.left

    # -- what comes in ----------------------------------------------------------------------------

    def read_answers(self) -> None:
        """What the database said, or that it does not answer."""
        for answer in self.source.answers():
            self._stale = True
            if take_answer(self.scene, answer, now()):
                self._look_at = 0.0
        since = self.source.silent_since
        if since is not None and now() - since > TROUBLE_SECONDS and not self.scene.trouble:
            take_trouble(self.scene, "it does not answer", since)

    def read_feed(self) -> None:
        """The newest message of the parent."""
        assert self.fleet is not None
        if (told := self.fleet.newest()) is not None:
            take_feed(self.scene, told)
            self._stale = True

    def read_log(self) -> None:
        """Lines into the view, or straight onto the terminal where there is none."""
        assert self.fleet is not None
        if not self.display.on and self.terminal.sink.full:
            return
        for record in self.fleet.log.read():
            if self.display.on:
                self.log.append(record)
                self._stale = True
            else:
                self._write_line(record)

    def _write_line(self, record: Record) -> None:
        self.terminal.sink.say((self.fleet.format if self.fleet else as_text)(record))

    # -- what goes out ----------------------------------------------------------------------------

    def draw(self) -> None:
        """A frame, when something has changed and the terminal has taken the one before."""
        at = now()
        if not self.display.on or self.terminal.sink.pending:
            return
        if at - self._drawn_at < (DRAW_SECONDS if self._stale else TICK_SECONDS):
            return
        self._drawn_at, self._stale = at, False
        width, height = self.terminal.size()
        if not self.scene.state.paused:
            self._held_at, self.scene.log = at, self.log
        elif self.scene.log is self.log:
            self.scene.log = tuple(self.log)  # what is logged from here on is shown when it goes on
        clock = time.time()
        frame = render(self.scene, width, height, self._held_at, clock, unicode=self._unicode)
        self.display.show(frame)

    def fail(self, error: Exception) -> None:
        """A fault of ours ends the view. With a fleet, its log lines go on."""
        self.failures += 1
        self.display.leave(LEAVE_SECONDS)
        if self.fleet is None or self.failures > MOST_FAILURES:
            raise error
        told = f"the live view failed, log lines go on: {error_text(error, 500)}"
        self._write_line({"at": time.time(), "level": "error", "role": "console", "message": told})


def _noticed(number: int, frame: object) -> None:
    """Python has written the number to the wakeup descriptor before this is called."""
