"""`runner demo`: a real job on real files, with a worker killed in the middle of it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ..errors import NothingChanged, RunnerError, UsageError
from . import output, problems
from .database import connect_wait, embedded_database
from .params import MOST_PROCS, Count
from .settings import Settings
from .watch import terminal_for_view

if TYPE_CHECKING:
    from ..store.connect import Connection

ROUNDS = 5  # drains, until what the kill interrupted is done as well
LOOK_SECONDS = 0.02
LINE_SECONDS = 1.0  # between lines where there is no view
STOPPED = (130, 143)  # exit codes of a drain that a person has ended
KILL_AT = 0.3  # share of the files that are done by then
COLUMNS = ("files", "rows", "lost", "doubled", "killed", "seconds", "tasks_per_second")
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUN = "import sys; sys.path.append(sys.argv.pop(1)); from runner.cli import main; main()"
NEXT = """\
look at it:   runner db psql -c 'select * from runner_demo.file order by bytes desc limit 5'
your own:     write a tasks.py with a Registry, set DATABASE_URL (or, without a server of your own:
              export DATABASE_URL="$(runner db url)"; runner db start), then
              runner init; runner enqueue TYPE '{"some": "params"}'; runner start --procs 8
              (`runner` is scripts/runner here, .venv/bin/runner, or what pip has installed)"""


class NotWhole(NothingChanged):
    """The demo lost or doubled something."""


@click.command()
@click.argument(
    "directory", metavar="[DIR]", required=False, type=click.Path(exists=True, file_okay=False)
)
@click.option("--procs", type=Count(MOST_PROCS), default="8", show_default=True, help="Workers.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@connect_wait()
@click.pass_obj
def demo(
    settings: Settings, /, directory: str | None, procs: int, as_json: bool, connect_wait: float
) -> None:
    """Size, lines and SHA-256 of every file below DIR (default: Python's library), a task each.

    Runs in the embedded PostgreSQL; one worker is killed in the middle, and nothing is lost.
    """
    from ..demo_app import files_below, params_of
    from ..store import demo as store
    from ..store.connect import connected

    params = [params_of(path) for path in files_below(directory)]
    if not params:
        raise UsageError(f"no files below {directory}")
    with (
        _database(settings, connect_wait) as url,
        connected(url, "demo", connect_wait, statement_seconds=60.0) as conn,
    ):
        store.prepare(conn, params)
        show = Show(conn, len(params), settings)
        show.line(f"{len(params)} files, one task each, {procs} workers")
        show.view = settings.verbosity >= 0 and terminal_for_view(None) is not None
        _run(url, procs, show)
        found = store.summary(conn) | {"killed": show.killed}
    _tell(found, as_json, settings)
    if found["lost"] or found["doubled"]:
        raise NotWhole(f"{found['lost']} files are lost, {found['doubled']} doubled")


@contextlib.contextmanager
def _database(settings: Settings, wait: float) -> Iterator[str]:
    """The embedded one whatever the variables say: a demo has no business in a real database."""
    if "database_url" in settings.typed and settings.database_url:
        yield settings.database_url
    else:
        with embedded_database(settings, wait) as url:
            yield url


@dataclass
class Show:
    """Progress on stderr: the live view on a terminal; else a line now and then.

    While the view is on, lines wait until it has left: they would be drawn over.
    """

    conn: "Connection"
    files: int
    settings: Settings
    killed: int = 0
    begun: float = field(default_factory=time.monotonic)
    told: float = field(default_factory=time.monotonic)
    view: bool = False
    held: list[str] = field(default_factory=list)

    def progress(self, done: int) -> None:
        """Tell how far it is, unless that was told a moment ago."""
        at = time.monotonic()
        if not self.view and at - self.told >= LINE_SECONDS:
            self.told = at
            rate = done / (at - self.begun)
            self.line(f"{done} of {self.files} files, {rate:.0f} a second")

    def line(self, text: str) -> None:
        """A line that stays."""
        if self.view:
            self.held.append(text)
        elif self.settings.verbosity >= 0:
            problems.tell(f"demo: {text}", self.settings)

    def end(self) -> None:
        """The view has left: what was held back is told now."""
        view, self.view = self.view, False
        for text in self.held:
            self.line(text)
        self.view = view
        self.held.clear()


def _run(url: str, procs: int, show: Show) -> None:
    """Drain, and drain again what the kill sent back, until no task is left."""
    from ..store import demo as store

    for _ in range(ROUNDS):
        code = _drain(url, procs, show)
        show.end()
        if code in STOPPED:
            raise KeyboardInterrupt
        if code not in (0, 1):
            raise RunnerError(f"the workers ended with exit code {code}")
        tasks, due_seconds = store.waiting(show.conn)
        if not tasks:
            return
        time.sleep(min(max(due_seconds, 0.0), 5.0))


def _drain(url: str, procs: int, show: Show) -> int:
    """One `runner drain` as a process of its own, watched until it ends."""
    from ..store import demo as store

    command = [sys.executable, "-P", "-c", RUN, TOP, "drain", "--procs", str(procs)]
    command += ["--queue", "demo", "--app", "runner.demo_app", "--app-dir", TOP]
    command += ["--backoff", "100ms:1s", "--wait-retries", "10s", "--json"]
    command += ["--console"] if show.view else []
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=_environment(url),
    )
    try:
        while process.poll() is None:
            done = store.done(show.conn)
            show.progress(done)
            if not show.killed and done >= KILL_AT * show.files:
                _kill_one(process.pid, show)
            time.sleep(LOOK_SECONDS)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()
    return process.returncode


def _environment(url: str) -> dict[str, str]:
    """Ours, without what would change the options of the drain."""
    ours = {name: value for name, value in os.environ.items() if name[:13] != "RUNNER_DRAIN_"}
    return ours | {"RUNNER_DATABASE_URL": url}


def _kill_one(parent: int, show: Show) -> None:
    """kill -9 of a worker that has a task, after a look that the process is one of this drain."""
    from ..store import demo as store

    for pid in store.busy_workers(show.conn, parent):
        if _is_child(pid, parent):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                show.killed += 1
                show.line(f"killed worker {pid} with signal 9 in the middle of a task")
                return


def _is_child(pid: int, parent: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[1] == str(parent)
    except (OSError, IndexError):
        return not os.path.exists("/proc/self/stat")  # not Linux: the database's word has to do


def _tell(found: dict[str, Any], as_json: bool, settings: Settings) -> None:
    if as_json:
        output.write_json({name: found[name] for name in COLUMNS})
        return
    output.write_rows(COLUMNS, [found])
    output.flush()
    if settings.verbosity >= 0:
        problems.tell(NEXT, settings, cut=False)
