"""The live view of `start` and of `status --watch`: where it is shown, and plain lines elsewhere."""

import socket
import sys
import time
from typing import Any

from ..clock import now
from ..console.rates import Meter
from ..console.snapshot import counters, snapshot_of, speeds
from ..errors import RunnerError, UsageError
from ..operating.board import STATES
from ..operating.person import who
from ..terminal import Terminal, terminal_for, wants_plain_lines
from ..text import safe
from ..units import duration

STDOUT, STDERR = 1, 2
LINE_SECONDS = 1.0


def terminal_for_view(asked: bool | None) -> Terminal | None:
    """The terminal for the view of a fleet; None: log lines. `asked`: --console or --no-console."""
    if asked is False:
        return None
    terminal = terminal_for(STDERR)
    if terminal is None or (asked is None and wants_plain_lines(terminal)):
        return None
    return terminal


def watch(url: str) -> None:
    """Show the database's view until q is typed or somebody stops it."""
    from ..console.app import App
    from ..console.source import Source

    terminal = terminal_for(STDOUT)
    if terminal is None or wants_plain_lines(terminal):
        _write_lines(url)
        return
    try:
        App(terminal, Source(url, who())).run()
    finally:
        terminal.rescue()


def _write_lines(source_url: str) -> None:
    """One line a second, until somebody stops it or nobody reads."""
    from ..console.gather import Gatherer

    gatherer = Gatherer(source_url, who())
    meter = Meter()
    while True:
        answer = gatherer.answer({"ask": "look", "interval": LINE_SECONDS})
        clock = time.strftime("%H:%M:%S")
        if "look" in answer:
            snapshot = snapshot_of(answer["look"])
            meter.add(snapshot.taken_at, counters(snapshot))
            text = _line(snapshot.status, meter)
        else:
            text = f"no answer from the database: {safe(answer['trouble'])}"
        sys.stdout.write(f"{clock} {text}\n")
        sys.stdout.flush()
        time.sleep(LINE_SECONDS)


def _line(status: dict[str, Any], meter: Meter) -> str:
    parts = [f"{name}={status[name]}" for name in STATES]
    oldest = status["oldest_ready_seconds"]
    parts.append(f"oldest={'-' if oldest is None else duration(oldest)}")
    done, failed = speeds(status, meter, now())
    rates = (("done/s", done), ("failed/s", failed))
    parts += [f"{name}={'-' if rate is None else f'{rate:.1f}'}" for name, rate in rates]
    return " ".join([*parts, f"workers={status['leases_active']}"])


def picture(url: str, path: str) -> None:
    """Write the view as an SVG; UsageError where that cannot be."""
    from ..console.gather import Gatherer
    from ..console.picture import svg
    from ..console.scene import Scene
    from ..console.state import State

    gatherer = Gatherer(url, who())
    answer = gatherer.answer({"ask": "look", "interval": LINE_SECONDS})
    gatherer.close()
    if "look" not in answer:
        raise RunnerError(answer["trouble"])
    snapshot = snapshot_of(answer["look"])
    scene = Scene(
        State(), socket.gethostname(), database=answer["look"]["where"], snapshot=snapshot
    )
    made = svg(scene, now(), time.time())
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(made)
    except OSError as error:
        raise UsageError(f"cannot write {safe(path)}: {error.strerror}") from None
