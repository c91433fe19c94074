"""The command as people type it: a process, a clean environment, its two streams and its exit code."""

import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Result = subprocess.CompletedProcess[str]

APP = """
import runner.registry
tasks = runner.registry.Registry()

@tasks.task
def hello(tx, task):
    pass

@tasks.task(max_attempts=1)
def boom(tx, task):
    raise ValueError("no luck")

@tasks.task(max_attempts=9)
def again(tx, task):
    raise ValueError("not yet")
"""


def environment(**more: str) -> dict[str, str]:
    """Nothing that says which database, which app or which options; no terminal's variables."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PG", "RUNNER_", "LC_")) and name not in ("DATABASE_URL", "LANG")
    }
    return ours | {"LANG": "C.UTF-8", "RUNNER_HOME": "/nonexistent/runner"} | more


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "runner", *arguments]


def run(
    *arguments: str, url: str | None = None, cwd: Path | None = None, stdin: str = "", **env: str
) -> Result:
    """Run a command to its end."""
    more = env | ({"DATABASE_URL": url} if url is not None else {})
    return subprocess.run(
        command(*arguments),
        input=stdin,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        cwd=cwd,
        env=environment(**more),
        timeout=60,
        check=False,
    )


def run_on_terminal(*arguments: str, url: str, cwd: Path, **env: str) -> tuple[str, int]:
    """Run a command whose three streams are a terminal; what came out, and the exit code."""
    master, slave = pty.openpty()
    more = {"DATABASE_URL": url, "TERM": "xterm"} | env
    process = subprocess.Popen(
        command(*arguments),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=cwd,
        env=environment(**more),
        start_new_session=True,
    )
    os.close(slave)
    shown = b""
    try:
        while select.select([master], [], [], 60)[0]:
            data = os.read(master, 65536)
            shown += data
    except OSError:  # the last one who had it open is gone
        pass
    finally:
        os.close(master)
    return shown.decode("utf-8", "replace").replace("\r\n", "\n"), process.wait(60)


def error_of(result: Result) -> str:
    """The one `runner: error:` line; asserts the common form: at most one hint, nothing else."""
    lines = result.stderr.splitlines()
    assert lines, result
    assert lines[0].startswith("runner: error: "), result.stderr
    assert len(lines) <= 2, result.stderr
    assert all(line.startswith("hint: ") for line in lines[1:]), result.stderr
    return lines[0].removeprefix("runner: error: ")


# Imported once, then a fork for every command: a third of a second less for each.
EACH = """
import json, os, sys, tempfile
import psycopg, runner.cli, runner.fleet, runner.draining, runner.store.connect
import importlib

for verb in importlib.import_module("runner.cli.root").VERBS:
    importlib.import_module(f"runner.cli.{verb}")

def become(environment, arguments, cwd, streams):
    os.environ.update(environment)
    os.chdir(cwd or ".")
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
    exec(environment.get("PRELUDE", ""))
    sys.argv = ["runner", *arguments]
    runner.cli.main()

jobs = json.load(sys.stdin)
answers = []
for environment, arguments, stdin, cwd in jobs:
    streams = given, out, err = [tempfile.TemporaryFile() for _ in range(3)]
    given.write(stdin.encode("utf-8", "surrogateescape"))
    given.seek(0)
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            become(environment, arguments, cwd, streams)
        except SystemExit as end:
            code = end.code or 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read().decode("utf-8", "surrogateescape"))
    for stream in streams:
        stream.close()
    answers.append([code, *texts])
json.dump(answers, sys.stdout)
"""


@dataclass(frozen=True)
class Job:
    """One command of several."""

    arguments: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    cwd: Path | None = None


def run_jobs(jobs: Sequence[Job]) -> list[Result]:
    """Run commands one after the other, each in a process of its own, in the time of few."""
    given = [(dict(j.env), list(j.arguments), j.stdin, str(j.cwd or "")) for j in jobs]
    done = subprocess.run(
        [sys.executable, "-c", EACH],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [
        subprocess.CompletedProcess(command(*job.arguments), code, out, err)
        for job, (code, out, err) in zip(jobs, json.loads(done.stdout), strict=True)
    ]


def run_each(commands: Sequence[Sequence[str]], *, url: str, cwd: Path) -> list[Result]:
    """The same for commands in one place."""
    return run_jobs([Job(arguments, {"DATABASE_URL": url}, cwd=cwd) for arguments in commands])
