"""The global options: taken before and after the verb, the later and the firmer one counts."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import click
from click.core import ParameterSource

LOG_LEVELS = ("error", "warning", "info", "debug")


@dataclass
class Settings:
    """What the global options say; one object a command."""

    database_url: str | None = field(default=None, repr=False)
    app: str | None = None
    app_dir: str = "."
    log_format: str = "text"
    embedded: bool = False
    verbose: int = 0
    typed: set[str] = field(default_factory=set)  # given on the command line, not by a variable

    @property
    def verbosity(self) -> int:
        """Above 0: tell more; below: less."""
        return self.verbose

    def log_level(self, usual: str) -> str:
        """The level of a fleet's log, moved by each -v and -q."""
        at = LOG_LEVELS.index(usual) + self.verbosity
        if usual == "error" and self.verbosity > 0:
            at += 1  # a drain says nothing, or everything of use
        return LOG_LEVELS[max(0, min(at, len(LOG_LEVELS) - 1))]

    def take(self, name: str, value: object, typed: bool) -> None:
        """A value from the command line beats one from a variable, whichever side of the verb."""
        if name in self.typed and not typed:
            return
        if typed:
            self.typed.add(name)
        setattr(self, name, value)


def global_options() -> Iterator[click.Option]:
    """New ones for one command."""
    yield _option(
        ["--database-url"],
        metavar="URL",
        help="Where the tasks are (or RUNNER_DATABASE_URL, DATABASE_URL, PG*).",
    )
    yield _option(
        ["-A", "--app"],
        metavar="MODULE[:OBJECT]",
        help="The app with the handlers (or RUNNER_APP, setup.cfg, tasks.py).",
    )
    yield _option(["--app-dir"], metavar="DIR", help="Where the app is found (default: here).")
    yield _option(["--embedded"], is_flag=True, help="Use the embedded PostgreSQL.")
    yield _option(["--log-format"], type=click.Choice(["text", "json"]), help="How log lines look.")
    yield _option(["-v", "--verbose"], count=True, callback=_louder, help="Tell more.")
    yield _option(["-q", "--quiet"], count=True, callback=_quieter, help="Tell less.")
    yield click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        allow_from_autoenv=False,
        callback=_version,
        help="Print the version.",
    )


def add_global_options(command: click.Command, prefix: str) -> None:
    """Give them to a command and all below it; not to one that hands its options on (`db psql`).

    Every option is also the variable PREFIX_OPTION, whatever its parameter is called in Python.
    """
    if command.context_settings.get("ignore_unknown_options"):
        return
    taken = {name for param in command.params for name in param.opts}
    missing = [each for each in global_options() if not taken & set(each.opts)]
    command.params = [*command.params, *missing]
    for param in command.params:
        if isinstance(param, click.Option) and param.allow_from_autoenv:
            long = max(param.opts, key=len).lstrip("-").replace("-", "_")
            param.envvar = f"{prefix}_{long}".upper()
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            add_global_options(below, f"{prefix}_{name}")


def _option(names: list[str], **attributes: object) -> click.Option:
    attributes = {"callback": _keep, "expose_value": False, "is_eager": True} | attributes
    return click.Option(names, **attributes)  # type: ignore[arg-type]


def _keep(context: click.Context, param: click.Parameter, value: object) -> None:
    source = context.get_parameter_source(str(param.name))
    given = source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    if given and value is not None and not context.resilient_parsing:
        typed = source is ParameterSource.COMMANDLINE
        context.ensure_object(Settings).take(str(param.name), value, typed)


def _louder(context: click.Context, param: click.Parameter, value: int) -> None:
    context.ensure_object(Settings).verbose += value


def _quieter(context: click.Context, param: click.Parameter, value: int) -> None:
    context.ensure_object(Settings).verbose -= value


def _version(context: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from .._version import __version__

        click.echo(f"runner {__version__}")
        context.exit()
