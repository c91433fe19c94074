"""What keys lead to: another state of the view, or a deed in the database, the fleet or a file."""

import time
from dataclasses import replace

from ..clock import now
from ..terminal import Terminal
from .fleet import Fleet
from .picture import svg
from .scene import Scene
from .source import Source
from .state import Circumstances, Deed, press


class Deeds:
    """Carries out what the person at the keys has decided."""

    def __init__(
        self, scene: Scene, source: Source, fleet: Fleet | None, terminal: Terminal
    ) -> None:
        self.scene = scene
        self.source = source
        self.fleet = fleet
        self.terminal = terminal
        self.left = False  # the person has left the view

    def press(self, key: str) -> None:
        """Take one key."""
        self.scene.state, deed = press(self.scene.state, key, self._circumstances())
        if deed is not None:
            self._do(deed)

    def _circumstances(self) -> Circumstances:
        at = now()
        return Circumstances(
            at,
            self.scene.rows(at),
            self.scene.running(),
            self.scene.stopping() is not None,
            self.fleet is not None,
            self.fleet.grace_seconds if self.fleet else 0.0,
        )

    def _do(self, deed: Deed) -> None:
        if deed.verb == "leave":
            self.left = True
        elif deed.verb == "stop":
            if self.fleet is not None:
                self.fleet.stop()
        elif deed.verb == "picture":
            self._save_picture()
        else:
            self.source.ask({"ask": deed.verb} | deed.values)

    def _save_picture(self) -> None:
        """What stands on the screen, as a file."""
        name = time.strftime("runner-%Y%m%d-%H%M%S.svg")
        scene = replace(self.scene, state=replace(self.scene.state, note=None))
        width, height = self.terminal.size()
        try:
            with open(name, "w", encoding="utf-8") as file:
                file.write(svg(scene, now(), time.time(), width=width, height=height))
            said = f"saved as {name}"
        except OSError as error:
            said = f"cannot write {name}: {error.strerror}"
        self.scene.state = self.scene.state.noting(said, now())
