"""What rows say does nothing to a terminal: not on one, not in a pipe, not through the log."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from runner.loglines import as_json, as_text
from runner.text import safe
from tests.commands import run_each, run_on_terminal
from tests.servers import Connection
from tests.unit.test_text import is_harmless

# OSC 0 (title), 8 (links), 52 (clipboard), CSI, DCS, C1, carriage return, backspace, bell, bidi, markup.
HOSTILE = (
    "\x1b]0;owned\x07",
    "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]52;c;cm0gLXJmIC8=\x07",
    "\x1b[2J\x1b[H\x1b[31mred\x1b[0m",
    "\x1bP1$r0m\x1b\\",
    "\x9b31m\x9d0;owned\x9c",
    "ok\rFAKE",
    "abc\b\b\bxyz",
    "two\nlines\x0b\x0c",
    "\u202etxt.exe\u2066\u2069\u200f",
    "\u2028\u2029\x85\x7f",
    "[bold red]x[/] [link=http://evil.example]y[/link] [/]",
)
PIECES = [
    "\x1b",
    "\x9b",
    "\x9d",
    "\x07",
    "\b",
    "\r",
    "\n",
    "]52;c;",
    "[2J",
    "\u202e",
    "a",
    " ",
    "[/]",
]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # what Rich itself sends
VERBS = (
    "status",
    "list",
    "show {id}",
    "explain {id}",
    "todo",
    "dead list",
    "dead show {id}",
    "workers",
)


@given(st.lists(st.sampled_from(PIECES) | st.characters(), max_size=12).map("".join))
def test_sequences_of_pieces_are_harmless(text: str) -> None:
    record = {
        "level": text,
        "event": text,
        "message": text,
        "role": text,
        "slot": text,
        "task": text,
    }
    for line in (safe(text), as_text(record), as_text(record | {"event": "handler"})):
        assert is_harmless(line)
        assert len(line.splitlines()) <= 1
    fatal = as_text(record | {"event": "fatal", "hint": text})
    assert all(is_harmless(line) for line in fatal.split("\n"))
    assert len(fatal.split("\n")) == 1 + bool(text)
    line = as_json(record)
    assert line.isascii()
    assert is_harmless(line)
    assert json.loads(line)["message"] == text


@pytest.fixture
def hostile(db: Connection) -> list[int]:
    """Every hostile string in every place that takes text, dead, failing and waiting."""
    ids = []
    for text in HOSTILE:
        for state in ("ready", "scheduled", "dead"):
            found = db.execute(
                """insert into runner.task (queue, task_type, params, state, last_error, cause,
                       idempotency_key, attempt, max_attempts, last_failed_at)
                   values (%s, %s, %s, %s, %s, %s, %s, 1, 5, now()) returning task_id""",
                [text[:60], text, Jsonb({text: text}), state, text, text, f"{text}{state}"],
            ).fetchone()
            assert found is not None
            ids.append(found[0])
        db.execute(
            """insert into runner.worker (worker_id, runner_id, role, host, pid, types, queues, lease,
                                          lease_until)
               values (gen_random_uuid(), gen_random_uuid(), 'worker', %s, 1, %s, %s, '1h',
                       now() + '1h')""",
            [text, [text], [text[:60]]],
        )
        db.execute("insert into runner.pause (queue) values (%s)", [text[:60]])
    return ids


def is_tame(shown: str) -> bool:
    return is_harmless(COLOURS.sub("", shown).replace("\n", "").replace("\t", ""))


def _commands(verb: str, hostile: list[int]) -> list[list[str]]:
    # `explain` and `dead` are about the dead of each string, everything else about what is first.
    chosen = hostile[::3] if verb.startswith("show") else hostile[2::3]
    return [verb.format(id=task).split() for task in (chosen if "{id}" in verb else [0])]


@pytest.mark.db
@pytest.mark.process
def test_no_verb_lets_it_through(hostile: list[int], db_url: str, tmp_path: Path) -> None:
    plain = [one for verb in VERBS for one in _commands(verb, hostile)]
    for result in run_each(plain, url=db_url, cwd=tmp_path):
        assert result.returncode == 0, result
        assert is_tame(result.stdout + result.stderr), result.args
    for result in run_each([[*one, "--json"] for one in plain], url=db_url, cwd=tmp_path):
        assert result.stdout.isascii()
        assert is_tame(result.stdout), result.args


@pytest.mark.db
@pytest.mark.process
@pytest.mark.parametrize("verb", VERBS)
def test_nor_on_a_terminal(verb: str, hostile: list[int], db_url: str, tmp_path: Path) -> None:
    shown, code = run_on_terminal(*_commands(verb, hostile)[0], url=db_url, cwd=tmp_path)
    assert code == 0, shown
    assert is_tame(shown), verb


@pytest.mark.process
def test_nor_do_errors_about_what_was_typed(tmp_path: Path, db_url: str) -> None:
    ways = (["list", "--type"], [], ["show"], ["enqueue", "x"], ["start", "--queue"], ["pause"])
    commands = [[*way, text] for text in HOSTILE for way in ways]
    commands += [["list", f"--{text}"] for text in HOSTILE]
    for result in run_each(commands, url=db_url, cwd=tmp_path):
        assert is_tame(result.stderr + result.stdout), result.args
