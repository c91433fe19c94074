"""The names that programs read in the log are a contract: every event is on the page, and no other."""

import ast
import re
from pathlib import Path

import runner
from runner.saying import say
from runner.wire import Outcome
from tests.docs import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
LEVELS = ("debug", "info", "warning", "error")


def events_in_source() -> set[str]:
    """First arguments of what looks like a call of a log's method; and what says how a task ended."""
    found = {say("t", 1, one, 1).event for one in Outcome if one is not Outcome.NONE}
    for path in Path(runner.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                found |= _event_of(node, node.func)
    return found


def _event_of(call: ast.Call, function: ast.Attribute) -> set[str]:
    target = ast.unparse(function.value)
    number = 1 if function.attr == "emit" else 0
    if function.attr == "_replace":
        return {ast.literal_eval(one.value) for one in call.keywords if one.arg == "event"}
    if target.rpartition(".")[2] not in ("log", "_log", "_pipe") or len(call.args) <= number:
        return set()
    if function.attr not in (*LEVELS, "emit"):
        return set()
    argument = call.args[number]
    return {argument.value} if isinstance(argument, ast.Constant) else set()


def events_on_the_page() -> set[str]:
    section = PAGE.partition("## The log")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_every_event_is_on_the_page_and_no_other() -> None:
    assert events_in_source() == events_on_the_page()


def test_the_search_finds_events() -> None:
    found = events_in_source()
    assert {"swept", "done", "dead", "worker_died", "database_away", "handler", "no_room"} <= found
