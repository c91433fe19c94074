"""Whether it is meant."""

import sys

import click

from ..errors import NothingChanged, UsageError
from ..terminal import is_terminal
from ..text import plural


def confirm(what: str, yes: bool) -> None:
    """Ask before a mass change; UsageError where nobody can be asked."""
    if yes:
        return
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise UsageError(f"would {what}: say --yes to do so without being asked")
    if not click.confirm(f"{what}?", err=True):
        raise NothingChanged("nothing was changed")


def workers_are(count: int) -> str:
    """`1 worker is`, `2 workers are`."""
    return f"{plural(count, 'worker')} {'is' if count == 1 else 'are'}"
