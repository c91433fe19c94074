"""Whether it is meant."""

import sys

import click

from ..errors import NothingChanged, UsageError


def confirm(what: str, yes: bool) -> None:
    """Ask before a mass change; UsageError where nobody can be asked."""
    if yes:
        return
    if not _somebody_there():
        raise UsageError(f"would {what}: say --yes to do so without being asked")
    if not click.confirm(f"{what}?", err=True):
        raise NothingChanged("nothing was changed")


def _somebody_there() -> bool:
    try:
        return sys.stdin.isatty() and sys.stderr.isatty()
    except ValueError:
        return False


def tasks(count: int) -> str:
    """`1 task`, `2 tasks`."""
    return "1 task" if count == 1 else f"{count} tasks"


def workers_are(count: int) -> str:
    """`1 worker is`, `2 workers are`."""
    return "1 worker is" if count == 1 else f"{count} workers are"
