"""Cases about processes that were forked: what they share, and who dies with whom."""

import fcntl
import json
import os
import random
import signal
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from runner import kernel
from runner.wire import EVENT_SIZE, Event, Kind, pack_event
from tests import fleets
from tests.cases.aftermath import Scene
from tests.servers import gone, stopped, wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
SHORT = ("--lease", "3s", "--renew", "500ms")


def kill_workers(work: fleets.Work, kills: int, rng: random.Random) -> None:
    """Kill workers at random, 20 to 100 ms apart; after each fifth, work has to go on."""
    killed = 0
    while killed < kills:
        with suppress(ProcessLookupError, IndexError):
            os.kill(rng.choice(list(work.workers().values())), signal.SIGKILL)
            killed += 1
        if killed % 5 == 0:
            before = len(work.noted("start"))
            wait_until(lambda: work.empty() or len(work.noted("start")) > before, 20, "it goes on")  # noqa: B023
        time.sleep(rng.uniform(0.02, 0.1))


# -- P-10 -----------------------------------------------------------------------------------------


@pytest.mark.case("P-10")
def test_p10_connections_of_the_app(scene: Scene) -> None:
    """A connection and a pool that a module opens when it is imported, used by handlers, while workers
    are killed so that others are forked late. The app is imported in each worker, after the fork, and
    the parent connects to nothing: what a module opens belongs to the process that uses it, and there
    is nothing to be warned about."""
    work = scene.work
    with scene.fleet("--backoff", "100ms:200ms", app="tests.apps.connected", procs=2) as fleet:
        fleets.wait_registered(work, 2)
        tasks = work.add("connected", 400)
        kill_workers(work, 4, random.Random(3))
        tasks += work.add("connected", 100)
        wait_until(work.empty, 40)
        wait_until(lambda: len(work.workers()) == 2)
        assert "database is away" not in fleet.log()
    work.exactly_once(tasks)


# -- P-11 -----------------------------------------------------------------------------------------


def killed_at_random(scene: Scene, kills: int) -> None:
    work = scene.work
    with scene.fleet("--backoff", "100ms:200ms") as fleet:
        fleets.wait_registered(work, 4)
        tasks = []
        for part in range(kills // 10):
            tasks += work.add("ordinary", 300)
            kill_workers(work, 10, random.Random(part))
        wait_until(work.empty, 60)
        wait_until(lambda: len(work.workers()) == 4, why="every worker was replaced")
        assert "killing" not in fleet.log(), "nobody had to be killed for being silent"
    work.exactly_once(tasks)


@pytest.mark.case("P-11")
def test_p11_workers_killed_at_any_instant(scene: Scene) -> None:
    """There is one event pipe for all and no lock in it: whoever dies, the others go on."""
    killed_at_random(scene, 30)


@pytest.mark.case("P-11")
@pytest.mark.full
def test_p11_for_a_minute(scene: Scene) -> None:
    killed_at_random(scene, 600)


# -- P-12 -----------------------------------------------------------------------------------------


@pytest.mark.case("P-12")
def test_p12_the_parent_is_killed(scene: Scene) -> None:
    """Workers are gone at once, one that is in C as well, and with them the programs of handlers; a
    second start runs their tasks, once. (A program in a session of its own escapes: documented.)"""
    work = scene.work
    tasks = work.add("first_hangs", seconds=2) + work.add("first_hangs", seconds=300)
    tasks += work.add("first_hangs", seconds=300, in_c=True)
    work.add("programs", seconds=300)
    path = work.directory / "programs"
    with scene.fleet(*SHORT, ends=-signal.SIGKILL) as fleet:
        wait_until(lambda: path.exists() and len(path.read_text().split()) == 3, 20)
        wait_until(lambda: len(work.noted("start")) == 3, 20)
        workers = list(work.workers().values())
        programs = [int(word) for word in path.read_text().split()]
        good = work.add("ordinary", 50)
        os.kill(fleet.pid, signal.SIGKILL)
        wait_until(lambda: fleets.all_gone([*workers, *programs[:2]]), 2.0, "all gone")
    assert not work.effects()
    os.kill(programs[2], signal.SIGKILL)
    work.conn.execute("delete from runner.task where task_type = 'programs'")
    with scene.fleet(*SHORT):
        wait_until(work.empty, 30)
    work.exactly_once([*tasks, *good])


# -- P-35 -----------------------------------------------------------------------------------------


def event_pipe(parent: int) -> tuple[int, Path]:
    """The parent's own end of the pipe that it reads and several children write, and a child's."""
    ours = {name: fd for name, fd, writes in _pipes(parent) if not writes}
    writers: dict[str, list[Path]] = {}
    for child in kernel.children_of(parent):
        for name, fd, writes in _pipes(child):
            if writes and name in ours:
                writers.setdefault(name, []).append(Path(f"/proc/{child}/fd/{fd}"))
    name = max(writers, key=lambda each: len(writers[each]))
    assert len(writers[name]) > 2
    return ours[name], writers[name][0]


def _pipes(pid: int) -> Iterator[tuple[str, int, bool]]:
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            name = os.readlink(path)
            flags = Path(f"/proc/{pid}/fdinfo/{path.name}").read_text().split("flags:")[1].split()
            if name.startswith("pipe:"):
                yield name, int(path.name), int(flags[0], 8) & os.O_ACCMODE == os.O_WRONLY


@pytest.mark.case("P-35")
def test_p35_torn_and_foreign_records(scene: Scene) -> None:
    """Random bytes, halves of records, and records of nobody, between those of workers at work: they
    are skipped, that is told once or so, and nothing else happens. One pipe serves all here, so nobody
    is replaced for it. A type of 200 characters is in no record at all: that goes by number."""
    work = scene.work
    rng = random.Random(5)
    record = pack_event(Event(Kind.FINISHED, 77, b"x" * 16, task=1, fence=1))
    assert len(record) == EVENT_SIZE <= 512
    (long,) = work.add("x" * 200)
    with scene.fleet("--backoff", "100ms:200ms") as fleet:
        pids = fleets.wait_registered(work, 4)
        tasks = work.add("ordinary", 1500)
        _, path = event_pipe(fleet.pid)
        with path.open("wb", buffering=0) as pipe:
            for _ in range(300):
                half = record[: rng.randrange(1, len(record))]
                pipe.write(rng.choice([rng.randbytes(rng.randrange(1, 400)), half, record]))
        wait_until(lambda: work.states() == {"ready": 1}, 30)
        tasks += work.add("ordinary", 100)
        wait_until(lambda: work.states() == {"ready": 1}, 30)
        wait_until(lambda: "bad bytes on the event pipe were skipped" in fleet.log())
        assert work.workers() == pids
        assert fleet.log().count("bad bytes") < 50
    work.exactly_once(tasks)
    assert {fields[2] for fields in work.noted("start")} == {"1"}
    assert (work.row(long) or {})["attempt"] == 0


@pytest.mark.case("P-35")
def test_p35_workers_killed_while_they_write(scene: Scene) -> None:
    """A record is written whole or not at all, so a kill tears none."""
    work = scene.work
    with scene.fleet("--backoff", "100ms:200ms") as fleet:
        fleets.wait_registered(work, 4)
        tasks = work.add("noop", 20_000)
        kill_workers_blindly(work, 15)
        wait_until(work.empty, 60)
        assert "bad bytes" not in fleet.log()
    assert tasks


def kill_workers_blindly(work: fleets.Work, kills: int) -> None:
    rng = random.Random(9)
    while kills:
        with suppress(ProcessLookupError, IndexError):
            os.kill(rng.choice(list(work.workers().values())), signal.SIGKILL)
            kills -= 1
        time.sleep(rng.uniform(0.01, 0.1))


# -- P-36 -----------------------------------------------------------------------------------------

LONG = ("--lease", "60s", "--renew", "5s")
MANY = 40_000  # tasks, more than the pipe has room for


@contextmanager
def parent_stopped_until_full(scene: Scene, pid: int) -> Iterator[None]:
    """The parent stands still once its workers work (before, it has to extend their leases), and they
    go on until the pipe to it is full."""
    wait_until(lambda: scene.work.states()["ready"] < MANY, 20, "they have begun")
    ours, _ = event_pipe(pid)
    with stopped(pid):
        fd = os.open(f"/proc/{pid}/fd/{ours}", os.O_RDONLY | os.O_NONBLOCK)
        try:
            size = fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
            # Records are not split, so the end of each page stays empty.
            wait_until(lambda: _unread(fd) > 0.95 * size, 60, "the pipe is full")
        finally:
            os.close(fd)
        yield


def _unread(fd: int) -> int:
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"), "little")


@pytest.mark.case("P-36")
def test_p36_a_full_pipe_is_no_deadlock(scene: Scene) -> None:
    """Workers wait while their parent does not read, and go on when it does; every task is counted."""
    work = scene.work
    work.add("noop", MANY)
    with scene.fleet(*LONG, "--json", verb="drain", procs=8, ends=0) as fleet:
        with parent_stopped_until_full(scene, fleet.pid):
            assert not work.empty(), "they wait"
        assert fleet.process.wait(60) == 0
    told = json.loads(fleet.log().splitlines()[-1])
    assert (told["ok"], told["left"], told["reason"]) == (MANY, 0, "drained")


@pytest.mark.case("P-36")
def test_p36_a_stop_while_the_pipe_is_full(scene: Scene) -> None:
    """It ends in time, gives back what had not begun, and charges nobody."""
    work = scene.work
    work.add("noop", MANY)
    with scene.fleet(*LONG, procs=8, ends=0) as fleet:
        with parent_stopped_until_full(scene, fleet.pid):
            workers = list(work.workers().values())
            fleet.process.send_signal(signal.SIGTERM)
        assert fleet.process.wait(30) == 0
        assert all(gone(pid) for pid in workers)
    assert set(work.states()) <= {"ready"}
    charged = "select count(*) from runner.task where attempt > 0"
    assert work.conn.execute(charged).fetchone() == (0,)
