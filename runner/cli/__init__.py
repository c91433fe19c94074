"""The command line: `main` runs a verb and turns whatever comes of it into an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from . import output, problems
from .arguments import hide_secrets
from .root import root
from .settings import Settings


def main() -> NoReturn:
    """The command `runner`."""
    hide_secrets(sys.argv[1:])
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; nothing is raised."""
    output.prepare_streams()
    settings = Settings()
    try:
        code = _invoke([*arguments], settings)  # `list` is a verb of ours here
        output.flush()
    except BaseException as error:
        code = problems.report(error, settings)
    output.settle_streams()
    return code


def _invoke(arguments: list[str], settings: Settings) -> int:
    if "_RUNNER_COMPLETE" in os.environ:
        root.main(arguments, prog_name="runner")
    # Not root.main(): it has an error printer and exit codes of its own.
    try:
        with root.make_context("runner", arguments, obj=settings) as context:
            code = root.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return code if isinstance(code, int) else 0
