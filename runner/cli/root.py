"""The group of all verbs. A verb's module is imported when the verb is used, not before."""

import importlib
from collections.abc import Iterable

import click

from .examples import add_example
from .settings import add_global_options, global_options

VERBS = (
    "start",
    "drain",
    "enqueue",
    "status",
    "workers",
    "todo",
    "list",
    "show",
    "explain",
    "dead",
    "cancel",
    "pause",
    "resume",
    "init",
    "migrate",
    "check",
    "doctor",
    "health",
    "metrics",
    "db",
    "demo",
)
DRAIN_ALIASES = {"--drain", "--burst", "--once"}


class Verbs(click.Group):
    """Finds `runner.cli.VERB` and gives each command the global options."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which people meet them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        if cmd_name not in VERBS:
            return None
        command = getattr(importlib.import_module(f"{__package__}.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        add_global_options(command, f"RUNNER_{cmd_name}")
        add_example(command, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """`start --drain` and its like are `drain`; a misspelt verb is told with its neighbour."""
        if args[0] == "start" and (aliases := DRAIN_ALIASES & set(args)):
            args = ["drain", *(one for one in args[1:] if one not in aliases)]
        if args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(f"no such verb: {args[0]}{_neighbour(args[0], VERBS)}", ctx)
        return super().resolve_command(ctx, args)


def _neighbour(name: str, names: Iterable[str]) -> str:
    import difflib

    begun = [each for each in names if each.startswith(name)]
    near = begun or difflib.get_close_matches(name, names, 1)
    return f" (did you mean {near[0]}?)" if near else ""


root = Verbs(
    "runner",
    params=list(global_options()),
    help="""A batch runner for Python on PostgreSQL.

    Tasks are rows; handlers are functions of your app; a fleet of worker processes runs them, and each
    task is deleted in the transaction of its handler's own writes. Every option is also read from
    RUNNER_VERB_OPTION, as in RUNNER_START_PROCS.
    """,
    epilog="\b\nExample, with a tasks.py here and DATABASE_URL set:\n  runner init && runner start",
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "RUNNER",
        "max_content_width": 100,
    },
)
