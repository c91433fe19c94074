"""The view as an SVG, for people to share: the same renderable, drawn by Rich."""

import io
import re

from rich.console import Console

from .scene import Scene
from .view import render

WIDTH, HEIGHT = 110, 34
# Rich's frame loads fonts from elsewhere; a picture that is passed around asks nobody for anything.
_FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}\s*")


def svg(scene: Scene, now: float, clock: float, *, width: int = WIDTH, height: int = HEIGHT) -> str:
    """The frame as an SVG document."""
    console = Console(
        file=io.StringIO(),
        record=True,
        width=width,
        height=height,
        force_terminal=True,
        color_system="truecolor",
        no_color=False,
        highlight=False,
        legacy_windows=False,
    )
    console.print(render(scene, width, height, now, clock), end="")
    return _FONT_FACE.sub("", console.export_svg(title="runner"))
