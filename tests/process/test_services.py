"""Under a service manager: what it is told over a real socket, and as process 1 of a container."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleets import (
    AS_PROCESS_1,
    ROOT,
    environment,
    need_process_1,
    running,
    wait_registered,
    work,
)
from tests.servers import stopped, wait_until

pytestmark = [pytest.mark.db, pytest.mark.process]


class Manager:
    """A datagram socket as a service manager has one, and what came in on it."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)
        self.heard: list[str] = []

    def listen(self) -> list[str]:
        while True:
            try:
                self.heard += self.socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return self.heard


@contextmanager
def manager(address: str) -> Iterator[Manager]:
    one = Manager(address)
    try:
        yield one
    finally:
        one.socket.close()


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
def test_ready_alive_stopping(abstract: bool, fresh: str, tmp_path: Path) -> None:
    """It is told that we are ready when a worker is, is fed as long as the parent goes round, and not
    when that stands still; and is told of the stop before it is over."""
    name = f"runner-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    told = {"NOTIFY_SOCKET": f"@{name}" if abstract else name, "WATCHDOG_USEC": "1000000"}
    with (
        manager("\0" + name if abstract else name) as systemd,
        work(fresh, tmp_path) as queue,
        running(fresh, tmp_path, procs=2, **told) as fleet,
    ):
        wait_until(lambda: "READY=1" in systemd.listen(), 30, "ready")
        assert queue.workers()
        assert "STATUS=2 workers" in systemd.heard
        wait_until(lambda: systemd.listen().count("WATCHDOG=1") >= 3, 10, "fed")
        with stopped(fleet.pid):
            systemd.listen()
            fed = len(systemd.heard)
            time.sleep(1.5)
            assert len(systemd.listen()) == fed
        wait_until(lambda: len(systemd.listen()) > fed, 10, "fed again")
        queue.add("sleepy", seconds=1)
        wait_until(queue.running, 10, "it runs")
        fleet.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "STOPPING=1" in systemd.listen(), 10, "stopping")
        assert fleet.process.poll() is None
        assert fleet.process.wait(20) == 0
        assert systemd.listen().count("READY=1") == 1


def test_programs_of_handlers_hear_nothing_of_the_socket(fresh: str, tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    with (
        manager(name) as systemd,
        work(fresh, tmp_path) as queue,
        running(fresh, tmp_path, procs=1, NOTIFY_SOCKET=name) as fleet,
    ):
        queue.add("environ")
        wait_until(lambda: (tmp_path / "environ").exists() and queue.empty(), 20, "done")
        assert "NOTIFY_SOCKET" not in (tmp_path / "environ").read_text()
        assert "CHORES_DIR" in (tmp_path / "environ").read_text()
        assert "READY=1" in systemd.listen()
        assert fleet.stop() == 0


def test_a_socket_that_nobody_reads_holds_up_nothing(fresh: str, tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    told = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "2000"}
    with manager(name), work(fresh, tmp_path) as queue:
        with running(fresh, tmp_path, procs=1, **told) as fleet:
            wait_registered(queue, 1)
            tasks = queue.add("ordinary", 300)
            wait_until(queue.empty, 30, "done")
            assert fleet.stop() == 0
        queue.exactly_once(tasks)


def test_as_process_1(fresh: str, tmp_path: Path) -> None:
    """It reaps the orphans of others, serves, and stops at SIGTERM, which process 1 must ask for."""
    need_process_1()
    command = [*AS_PROCESS_1, sys.executable, "-m", "runner", "start", "--procs", "2"]
    command += ["--lease", "5s", "--poll", "1s", "-A", "tests.apps.chores", "--app-dir", str(ROOT)]
    env = environment(tmp_path, DATABASE_URL=fresh)
    with work(fresh, tmp_path) as queue, (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=tmp_path
        )
        try:
            wait_registered(queue, 2)
            (first,) = (int(pid) for pid in _children(process.pid))
            queue.add("orphans", 5)
            tasks = queue.add("ordinary", 20)
            wait_until(queue.empty, 30, "done")
            queue.exactly_once(tasks)
            wait_until(lambda: not _zombies(first), 20, "orphans are reaped")
            os.kill(first, signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def test_with_a_root_that_is_read_only(fresh: str, tmp_path: Path) -> None:
    """Nothing is written anywhere, /tmp included."""
    seal = 'mount --make-rprivate / && mount -o remount,ro,bind / && ! touch "$0" && exec "$@"'
    under = ["unshare", "--mount", "sh", "-c", seal, str(tmp_path / "probe")]
    if subprocess.run([*under, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no name space of mounts can be made here")
    with work(fresh, tmp_path) as queue:
        queue.add("noop", 50)
        queue.add("boom", 1)
        with running(fresh, tmp_path, procs=2, under=under) as fleet:
            wait_until(queue.only_dead, 30, "all done or dead")
            assert fleet.stop() == 0
        assert "Traceback" not in fleet.log()


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _zombies(pid: int) -> list[str]:
    return [
        child
        for child in _children(pid)
        if Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    ]
