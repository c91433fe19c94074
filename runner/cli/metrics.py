"""`runner metrics`: Prometheus text, once."""

from pathlib import Path

import click

from ..files import write_whole
from . import output
from .database import connect_wait, connection
from .settings import Settings


@click.command()
@click.option(
    "--file", type=click.Path(path_type=Path), help="Write there, whole or not at all (textfile)."
)
@connect_wait()
@click.pass_obj
def metrics(settings: Settings, /, file: Path | None, connect_wait: float) -> None:
    """Print the figures as Prometheus text.

    A fleet serves or writes the same by itself: see `start --metrics` and `start --metrics-file`.
    """
    from ..store import figures

    with connection(settings, "metrics", connect_wait) as conn:
        text = figures.metrics(conn)
    if file is None:
        output.write(text)
    else:
        write_whole(file, text)
