"""examples/convert: hundreds of files through find, `runner enqueue` and a drain; one worker killed."""

import csv
import gzip
import hashlib
import json
import os
import signal
from pathlib import Path

import pytest

from tests.docs import typed
from tests.examples.playing import Play

pytestmark = [pytest.mark.process, pytest.mark.db]
NAMES = ["plain", "with space", "quote'", 'double"', "ünï", "back\\slash", "semi;colon"]
FILES = 300


def fill(directory: Path) -> dict[Path, list[dict[str, str]]]:
    """Files in several folders; what each should become."""
    expected = {}
    for number in range(FILES):
        path = directory / str(number % 7) / f"{NAMES[number % len(NAMES)]} {number}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"id": str(row), "text": f"{number}, «{row}»"} for row in range(1000)]
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["id", "text"])
            writer.writeheader()
            writer.writerows(rows)
        expected[path.with_suffix(".jsonl.gz")] = rows
    (directory / "broken.csv").write_text("id,text\n1,a\n2\n")
    return expected


def test_every_file_is_converted_and_the_broken_one_is_on_the_board(
    fresh: str, tmp_path: Path
) -> None:
    play = Play("convert", tmp_path, fresh)
    expected = fill(play.directory / "data")
    export, init, table, find, drain, todo = typed(play.block("find"))
    for line in (export, init, table, find, find):  # twice: nothing is added twice
        play.terminal.type(line)
    assert play.states() == {"ready": FILES + 1}
    with play.terminal.begun(drain) as process:
        at_work = "select pid from runner.worker where role = 'worker'"
        at_work += " and exists (select from converted)"
        ((pid,), *_) = play.wait(lambda: play.rows(at_work), "the work has begun")
        os.kill(pid, signal.SIGKILL)
        assert process.wait(90) == 0
    if "scheduled" in play.states():  # killed in a task, which waits for its backoff
        due = "select 1 from runner.task where state = 'scheduled' and run_at < now()"
        play.wait(lambda: play.rows(due), "it is due")
        play.terminal.type(drain)
    assert play.states() == {"dead": 1}
    board = play.terminal.type(todo).stdout
    assert "row 3 has not as many fields as the header" in board
    assert read_back(list(expected)) == expected
    digests = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in expected}
    assert dict(play.rows("select path, sha256 from converted")) == digests
    made = {path for path in (play.directory / "data").rglob("*.jsonl.gz") if path.name[0] != "."}
    assert made == set(expected)


def read_back(paths: list[Path]) -> dict[Path, list[dict[str, str]]]:
    return {
        path: [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        for path in paths
    }
