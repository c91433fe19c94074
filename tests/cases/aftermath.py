"""What must hold after every case, whatever was done to the fleet in it.

The parent is alive or has ended with the documented code; no zombie, no overlap, nothing in the log as
an error that was not expected; every task is done, waiting or dead, or held by a worker that is alive.
That no process is left is looked at for every test that is marked `process`.
"""

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner import kernel
from tests import fleets, servers
from tests.servers import wait_until
from tests.terminals import Pty

ERROR = re.compile(r"^(?:\d\d:\d\d:\d\d ERROR|runner: error:|Traceback).*$", re.MULTILINE)
DEAD = r"task \d+ \(.*\) is dead after "  # what is told of every task that dies


class Scene:
    """A database of its own with witnesses, and the fleets that a case starts on it."""

    def __init__(self, work: fleets.Work) -> None:
        self.work = work
        self._fleets: list[fleets.Fleet] = []
        self._expected: list[re.Pattern[str]] = []
        self.broken = False  # the case has failed already

    def expect(self, *patterns: str) -> None:
        """Error lines that this case is about; each of these must have been said in the end."""
        self._expected += [re.compile(pattern) for pattern in patterns]

    @contextmanager
    def fleet(
        self,
        *options: str,
        ends: int | None = None,
        url: str | None = None,
        app: str = "tests.apps.trouble",
        procs: int = 4,
        verb: str = "start",
        under: Sequence[str] = (),
        on: Pty | None = None,
        **extra: str,
    ) -> Iterator[fleets.Fleet]:
        """A command at work. `ends`: the code with which it has ended, or is about to, when the block is
        left; None: it must still be there, and ends with 0 when it is asked to."""
        if ends == -signal.SIGKILL:
            self.expect("supervisor: has died")
        where = url or self.work.url, self.work.directory
        with fleets.running(
            *where, *options, app=app, procs=procs, verb=verb, under=under, on=on, **extra
        ) as fleet:
            self._fleets.append(fleet)
            try:
                yield fleet
            except BaseException:
                self.broken = True
                print(fleet.log())
                raise
            if ends is None:
                assert fleet.process.poll() is None, f"the parent has ended:\n{fleet.log()}"
                wait_until(lambda: not zombies_of(fleet.pid), 5, "no zombie")
                ends = 0
                fleet.process.terminate()
            assert fleet.process.wait(20) == ends, fleet.log()

    def log(self) -> str:
        """What all its fleets have said."""
        return "".join(fleet.log() for fleet in self._fleets)

    def check(self) -> None:
        """Look at everything; called by `scene` at the end."""
        nobodys = """select task_id, lease_owner from runner.task
            where state = 'running' and not exists (
                select from runner.worker
                where worker_id = lease_owner and lease_until > clock_timestamp())"""
        assert not self.work.conn.execute(nobodys).fetchall(), "leased by nobody"
        assert not self.work.noted("overlap")
        log = self.log()
        errors = [line.group() for line in ERROR.finditer(log)]
        for line in errors:
            assert any(one.search(line) for one in self._expected), f"not expected: {line}\n{log}"
        for one in self._expected:
            assert any(one.search(line) for line in errors), f"never said: {one.pattern}\n{log}"


def zombies_of(pid: int) -> list[int]:
    """Children of a process that have ended and that it has not waited for."""
    return [child for child in kernel.children_of(pid) if servers.process_state(child) == "Z"]


@contextmanager
def scene(url: str, directory: Path) -> Iterator[Scene]:
    """A scene on a fresh database, looked at when the block is left without an error."""
    with fleets.work(url, directory) as work:
        one = Scene(work)
        yield one
        if not one.broken:
            one.check()
