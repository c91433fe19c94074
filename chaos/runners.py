"""The fleets of a campaign: started, killed, started again."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from chaos import processes
from chaos.hosts import Host
from chaos.proxy import Proxy

ROOT = Path(__file__).parent.parent


@dataclass
class Runner:
    """`runner start`, or another verb, on one host; a proxy or a network leads to the server."""

    name: str
    url: str
    directory: Path
    options: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    host: Host | None = None
    proxy: Proxy | None = None
    app: str = "chaos.handlers"
    verb: str = "start"
    process: subprocess.Popen[bytes] | None = None
    disturbed: bool = False  # a fault that lasts is at work on its parent or its network
    ended_by_itself: int = 0

    def start(self) -> None:
        """A new parent."""
        command = [sys.executable, "-m", "runner", self.verb, "-A", self.app]
        command += ["--app-dir", str(ROOT), *self.options]
        if self.host is not None:
            command = self.host.command(*command)
        with (self.directory / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, env=self._environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd=self.directory,
            )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        ours = {"CHAOS_DIR": str(self.directory), "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
        return kept | ours | {"DATABASE_URL": self.url} | self.env

    @property
    def pid(self) -> int:
        """Of the parent. `ip netns exec` becomes the command, so it is the same on a host."""
        assert self.process is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether the parent runs."""
        return self.process is not None and self.process.poll() is None

    def see_to_it(self) -> None:
        """Start it again when it ended though nobody asked it to."""
        if not self.disturbed and not self.alive:
            self.ended_by_itself += 1
            self.start()

    def kill(self) -> None:
        """kill -9 of the parent."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self, seconds: float = 20.0) -> int:
        """A graceful stop, by force when it takes longer than that; the exit code."""
        assert self.process is not None
        processes.send(self.pid, signal.SIGCONT)
        self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL
