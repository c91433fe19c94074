"""The lines of the log: nothing that a handler says does anything to a terminal."""

import json

import pytest

from runner.loglines import as_json, as_text

HOSTILE = [
    "a\x1b[31mred",
    "\x1b]0;title\x07",
    "back\x08\x08\rover",
    "\u202eright to left",
    "two\nlines",
    "\x9b2J",
    "[bold]markup[/bold]",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("event", ["dead", "output", "handler", "fatal"])
def test_every_line_is_one_and_printable(text: str, event: str) -> None:
    record = {"at": 0.0, "level": "error", "event": event, "message": text, "hint": text}
    record |= {"role": "worker", "slot": 1, "task": 7}
    for line in as_text(record).split("\n"):
        assert line.isprintable()
    assert len(as_text(record).split("\n")) == (2 if event == "fatal" else 1)
    assert json.loads(as_json(dict(record)))["message"] == text


def test_what_was_printed_keeps_its_indent() -> None:
    record = {"at": 0.0, "level": "info", "role": "worker", "slot": 1, "event": "output"}
    lines = ['  File "a.py", line 4, in hook', "    sys.exit(1)", " " * 999 + "x"]
    told = [as_text(record | {"message": line}).partition("worker 1: ")[2] for line in lines]
    assert told == [*lines[:2], " " * 40 + "x"]
    assert as_text(record | {"event": "dead", "message": "  x"}).endswith("worker 1: x")
