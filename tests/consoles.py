"""Live views for tests: the commands that show them, on pseudo-terminals, with work to be shown."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.commands import command, environment
from tests.fleets import QUICK, ROOT, Work
from tests.servers import gone, wait_until
from tests.terminals import Pty, terminal

APP = ("-A", "tests.apps.chores", "--app-dir", str(ROOT))


def variables(queue: Work, **more: str) -> dict[str, str]:
    ours = {"DATABASE_URL": queue.url, "CHORES_DIR": str(queue.directory), "PYTHONPATH": str(ROOT)}
    return environment(**ours) | more


@contextmanager
def fleet(queue: Work, *options: str, procs: int = 2, **more: str) -> Iterator[Pty]:
    """`runner start` on a terminal."""
    size = {name: int(more.pop(name)) for name in ("columns", "lines") if name in more}
    typed = command("start", "--procs", str(procs), *APP, *QUICK, *options)
    with terminal(typed, queue.directory, variables(queue, **more), **size) as one:
        yield one


@contextmanager
def watcher(queue: Work, **more: str) -> Iterator[Pty]:
    """`runner status --watch` on a terminal."""
    with terminal(command("status", "--watch"), queue.directory, variables(queue, **more)) as one:
        yield one


def console_of(parent: int) -> int | None:
    """The pid of the live view: of the parent's children the only one in its session."""
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        if os.getsid(int(pid)) == os.getsid(parent) and not gone(int(pid)):
            return int(pid)
    return None


def dies(queue: Work, task_type: str = "boom") -> int:
    """A dead task."""
    (task,) = queue.add(task_type)
    wait_until(lambda: (row := queue.row(task)) and row["state"] == "dead", 20, "dead")
    return task
