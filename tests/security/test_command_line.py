"""A URL that was typed stays in no process's command line or title."""

import subprocess
from pathlib import Path

import psycopg
import pytest

from runner.cli.arguments import secrets
from tests.commands import APP, command, environment
from tests.db.stage import one
from tests.servers import descendants, wait_until

SECRET = "S3cr3tCanary"


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["start", "--database-url", "abc"], ["abc"]),
        (["--database-url=abc", "start"], ["abc"]),
        (["status", "--database-url"], []),
        (["status", "postgresql://u:p@h/d"], ["postgresql://u:p@h/d"]),
        (["status", "host=h password=x"], ["host=h password=x"]),
        (["enqueue", "mail", '{"to": "a@example.com"}'], []),
        (["start", "--app-dir", "/srv/a=b"], []),
    ],
)
def test_what_is_secret(arguments: list[str], found: list[str]) -> None:
    assert secrets(arguments) == found


def _with_password(url: str) -> str:
    """The same server (it trusts), a password in the URL, and as a parameter once more."""
    return url.replace("postgres@", f"postgres:{SECRET}@") + f"&sslpassword={SECRET}"


def _lines(pids: list[int]) -> dict[int, bytes]:
    return {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids}


@pytest.mark.process
@pytest.mark.parametrize("form", ["--database-url {}", "--database-url={}"])
def test_no_command_line_shows_it(
    form: str, fresh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parent, helpers, workers; and the program that a handler starts."""
    (tmp_path / "tasks.py").write_text(
        APP + "\n@tasks.task\ndef program(tx, task):\n"
        "    import subprocess\n    subprocess.run(['sleep', '60'])\n"
    )
    with psycopg.connect(fresh, autocommit=True) as conn:
        conn.execute("insert into runner.task (task_type) values ('program')")
        options = form.format(_with_password(fresh)).split(" ")
        process = subprocess.Popen(
            command("start", "--procs", "2", "--grace", "0s", *options),
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: "sleep 60" in descendants().values(), 20, "a handler at work")
            wait_until(lambda: one(conn, "select count(*) from runner.worker") == 2)
            lines = _lines([process.pid, *_below(process.pid)])
            titles = one(conn, "select string_agg(application_name, ' ') from pg_stat_activity")
        finally:
            process.terminate()
            process.wait(20)
    assert len(lines) >= 7  # the parent, three helpers, two workers, a program
    assert not [line for line in lines.values() if SECRET.encode() in line]
    # Where setproctitle is installed, children have titles of their own.
    untitled = [line for line in lines.values() if not line.startswith((b"runner: ", b"sleep"))]
    assert untitled
    for line in untitled:
        assert b"--database-url" in line
        assert b"start" in line.split(b"\0")
    assert SECRET not in titles


def _below(pid: int) -> list[int]:
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *_below(int(child))]
    return found
