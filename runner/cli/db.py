"""`runner db …`: the embedded server by hand."""

import json
import os
import shutil
import signal
import subprocess
from dataclasses import asdict
from pathlib import Path

import click

from .. import embedded
from ..errors import EmbeddedError, NothingChanged


@click.group()
def db() -> None:
    """The embedded PostgreSQL server of this machine."""


_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@db.command()
@_json
def url(as_json: bool) -> None:
    """Print its URL, for DATABASE_URL and other programs."""
    seen = embedded.status()
    _print({"url": seen.url, "running": seen.running}, as_json, seen.url)
    if not seen.running:
        click.echo("runner: it is not running: runner db start", err=True)


@db.command()
@_json
def start(as_json: bool) -> None:
    """Start it, and keep it running until `runner db stop`."""
    started = embedded.start(keep=True)
    _print({"url": started, "running": True}, as_json, started)


@db.command()
@_json
def stop(as_json: bool) -> None:
    """Stop it: now, or when the last one who uses it leaves."""
    stopped = embedded.stop()
    _print({"running": not stopped}, as_json)
    if not stopped:
        click.echo("runner: in use: it stops when its last user leaves", err=True)


@db.command()
@_json
def status(as_json: bool) -> None:
    """Tell where it lives and whether it runs; starts nothing."""
    seen = asdict(embedded.status())
    fields = {key: str(value) if isinstance(value, Path) else value for key, value in seen.items()}
    if as_json:
        click.echo(json.dumps(fields))
        return
    for key, value in fields.items():
        click.echo(f"{key}\t{_shown(value)}")


@db.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@_json
def reset(yes: bool, as_json: bool) -> None:
    """Stop it and delete all its data."""
    home = embedded.status().home
    question = f"Delete the embedded database below {home} with all its tasks?"
    if not yes and not click.confirm(question, err=True):
        raise NothingChanged("nothing was deleted")
    embedded.reset()
    _print({"deleted": str(home)}, as_json)


def _print(record: dict[str, object], as_json: bool, text: str | None = None) -> None:
    """The record as JSON, or the one text of it that scripts use, if there is one."""
    if as_json or text is not None:
        click.echo(json.dumps(record) if as_json else text)


# Everything after `psql` is for psql, -h and --help too.
@db.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def psql(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Open psql on it; arguments and standard input go to psql. Its exit code is ours."""
    program = _find_psql()
    with embedded.Embedded.open() as server:
        context.exit(_run_in_foreground([str(program), *arguments], server.environment))


def _find_psql() -> Path:
    """The psql beside the server's programs, else the one on PATH."""
    beside = embedded.find_binaries().path / "psql"
    if beside.exists():
        return beside
    on_path = shutil.which("psql")
    if on_path is None:
        raise EmbeddedError("no psql found", hint="install the PostgreSQL client")
    return Path(on_path)


def _run_in_foreground(command: list[str], settings: dict[str, str]) -> int:
    """Run a program of libpq with these settings and no other; the answer is its exit code.

    Ctrl-C is for the program, where it cancels a query. A handler that does nothing keeps us here
    until it ends, and unlike SIG_IGN is not inherited by it.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run(command, env=ours | settings, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)
