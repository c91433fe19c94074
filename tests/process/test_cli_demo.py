"""`runner demo`: what it wrote is compared with the files themselves."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from runner.embedded import Embedded, stop
from runner.text import storable
from tests.commands import command, environment, error_of, run
from tests.servers import reachable_directory
from tests.terminals import terminal

pytestmark = pytest.mark.process
ODD = [
    b"a\xff\xfe.txt",
    "п\u202eу".encode(),
    b"new\nline",
    b"-dash",
    b"\x1b[2J",
    b"%41",
    b"a'b\"\\",
]


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with reachable_directory() as path:
        yield path / "home"
        stop(path / "home")


def fill(directory: Path, count: int) -> dict[str, tuple[int, int, str]]:
    """Files of some size; what the table should say of each."""
    expected = {}
    names = ODD + [f"file {number}".encode() for number in range(count)]
    for number, name in enumerate(names):
        below = os.path.join(os.fsencode(directory), b"%d" % (number % 7))
        os.makedirs(below, exist_ok=True)
        data = name + b"\n" * number + b"x" * 50_000
        path = os.path.join(below, name)
        with open(path, "wb") as file:
            file.write(data)
        digest = hashlib.sha256(data).hexdigest()
        expected[storable(os.fsdecode(path))] = (len(data), data.count(b"\n"), digest)
    os.mkfifo(directory / "fifo")
    (directory / "dangling").symlink_to("/nowhere")
    return expected


def test_every_file_has_one_right_row(tmp_path: Path, home: Path) -> None:
    expected = fill(tmp_path, 600)
    hostile = {"RUNNER_DRAIN_MAX_TASKS": "1", "RUNNER_APP": "nosuch", "PGHOST": "/nowhere"}
    result = run(
        "demo", str(tmp_path), "--json", url="postgresql://u@127.0.0.1:1/d",
        cwd=tmp_path, RUNNER_HOME=str(home), **hostile,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["files"], told["rows"]) == (len(expected), len(expected))
    assert (told["lost"], told["doubled"], told["killed"]) == (0, 0, 1)
    with Embedded.open(home) as server, psycopg.connect(server.url) as conn:
        query = "select path, bytes, lines, sha256 from runner_demo.file"
        assert {row[0]: row[1:] for row in conn.execute(query)} == expected
        assert conn.execute("select count(*) from runner.task").fetchone() == (0,)


def test_again_and_for_people(tmp_path: Path, home: Path) -> None:
    (tmp_path / "one").write_text("x")
    for _ in range(2):
        result = run("demo", str(tmp_path), cwd=tmp_path, RUNNER_HOME=str(home))
        assert result.returncode == 0
        header, row = (line.split("\t") for line in result.stdout.splitlines())
        assert dict(zip(header, row, strict=True))["rows"] == "1"
        assert "runner db psql" in result.stderr
        assert "\r" not in result.stderr


def test_nothing_to_do(tmp_path: Path, home: Path) -> None:
    result = run("demo", str(tmp_path), cwd=tmp_path, RUNNER_HOME=str(home))
    assert error_of(result) == f"no files below {tmp_path}"
    assert result.returncode == 2


@pytest.mark.full
def test_the_library_of_python(tmp_path: Path, home: Path) -> None:
    result = run("demo", "--json", cwd=tmp_path, RUNNER_HOME=str(home))
    told = json.loads(result.stdout)
    assert told["files"] == told["rows"] > 500
    assert (told["lost"], told["doubled"], told["killed"]) == (0, 0, 1)


def test_on_a_terminal_the_view_shows_it(tmp_path: Path, home: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    fill(files, 300)
    env = environment(RUNNER_HOME=str(home))
    with terminal(command("demo", str(files)), tmp_path, env) as one:
        assert one.end(60) == 0
        assert b"\x1b[?1049h" in one.sent
        assert one.is_as_before()
        shown = one.text()
        assert "demo: killed worker" in shown
        assert "lost" in shown
        assert "look at it:" in shown


def test_a_person_may_end_it(tmp_path: Path, home: Path) -> None:
    env = environment(RUNNER_HOME=str(home))
    with terminal(command("demo"), tmp_path, env) as one:
        one.wait_for("SLOT", "q stop", seconds=40)
        one.type("\x03")
        assert one.end(40) == 130
        assert one.is_as_before()
