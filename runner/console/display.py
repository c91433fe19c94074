"""Frames onto a terminal: Rich makes the bytes, a sink that never waits takes them."""

import io
import os

from rich.console import Console, RenderableType
from rich.live import Live

from ..terminal import Terminal


class Display:
    """Rich's live screen without its thread, on a terminal that may stop reading at any time."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self._buffer = io.StringIO()
        self._live: Live | None = None
        self._last = ""

    @property
    def on(self) -> bool:
        """Whether the screen is ours just now."""
        return self._live is not None

    def enter(self) -> None:
        """Take the terminal."""
        self.terminal.take()
        width, height = self.terminal.size()
        console = Console(
            file=self._buffer,
            force_terminal=True,
            width=width,
            height=height,
            highlight=False,
            legacy_windows=False,
        )
        self._live = Live(
            console=console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()
        self._last = ""

    def show(self, frame: RenderableType) -> None:
        """Draw a frame, unless it is what stands there."""
        assert self._live is not None
        self._live.console.size = os.terminal_size(self.terminal.size())
        self._live.update(frame, refresh=True)
        made = self._taken()
        if made != self._last:
            self._last = made
            self._write(made)

    def redraw(self) -> None:
        """The next frame is drawn whatever stands there."""
        self._last = ""

    def leave(self, seconds: float) -> None:
        """Give the terminal back; waits at most so long for one that does not read."""
        if self._live is None:
            return
        self._live.stop()
        self._live = None
        self._taken()
        self.terminal.leave(seconds)

    def _taken(self) -> str:
        made = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        return made

    def _write(self, made: str) -> None:
        self.terminal.sink.write(made.encode("utf-8", "backslashreplace"))
