"""A terminal for what the documents say to type: a shell, a directory, this environment's `runner`."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.commands import Result, environment

PLACEHOLDER = "postgresql://…"


def cron_commands(text: str) -> list[str]:
    """What cron hands to sh of the entries of a crontab: without the fields, with % as cron reads it."""
    found = []
    for line in text.splitlines():
        if line and not re.match(r"#|\w+=", line):
            command = line.split(maxsplit=5)[5]
            assert not re.search(r"(?<!\\)%", command), "cron ends the command at a bare %"
            found.append(command.replace("\\%", "%"))
    return found


class Terminal:
    """Types lines in a directory; DATABASE_URL leads to the test's database."""

    def __init__(self, directory: Path, url: str, **env: str) -> None:
        self.directory = directory
        self.url = url
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = environment(DATABASE_URL=url, PATH=path, **env)

    def type(self, line: str) -> Result:
        """Run a line to its end; it has to succeed."""
        result = subprocess.run(
            self._command(line), cwd=self.directory, env=self.environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert result.returncode == 0, (line, result.returncode, result.stdout, result.stderr)
        return result

    def cron(self, command: str) -> str:
        """Run a command as cron does, by sh; what it would mail. It has to succeed."""
        result = self.type(f"sh -c {shlex.quote(self._filled(command))}")
        return result.stdout + result.stderr

    @contextmanager
    def begun(self, line: str) -> Iterator[subprocess.Popen[bytes]]:
        """A line at work in the place of its shell; killed at the end if it is still there."""
        with (self.directory / "stderr").open("ab") as log:
            process = subprocess.Popen(
                self._command(f"exec {line}"), cwd=self.directory, env=self.environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(30)

    def _command(self, line: str) -> list[str]:
        if line == f"export DATABASE_URL={PLACEHOLDER}":
            line = "true"  # done already
        return ["bash", "-euo", "pipefail", "-c", self._filled(line)]

    def _filled(self, line: str) -> str:
        return line.replace(PLACEHOLDER, shlex.quote(self.url))
