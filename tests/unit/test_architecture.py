"""ARCHITECTURE.md agrees with the code: its layers with those that are enforced, its chart with what is
done to tasks. Of the chart each side is read off its own source: the prose, the CHECK of the table, the
statements, and the judge when asked about every kind of claim.
"""

import random
import re
from itertools import product

from runner.backoff import Backoff
from runner.judge import Claim, Judge, Verdict
from runner.statements import statements
from runner.wire import How, Kind, Order, Token
from tests.docs import ROOT, blocks
from tests.unit.test_layers import LAYERS

Arrow = tuple[str, str]
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
SCHEMA = (ROOT / "schema.sql").read_text("utf-8")
STATES = frozenset(re.findall(r"'(\w+)'", re.findall(r"check \(state in \((.*?)\)\)", SCHEMA)[0]))
GONE = "deleted"
# What gives these two their states is what people typed: cli.dead, cli.cancel.
BY_PEOPLE = {"requeue": {("dead", "ready"), ("scheduled", "ready")}, "remove": {("any", GONE)}}


def rooms(table: str) -> dict[int, set[str]]:
    """The modules of each layer that a table of layers names."""
    found = {}
    for line in table.splitlines():
        if row := re.match(r"\| (\d) \| (.*?) \|", line):
            names = re.findall(r"`(\w+)(?:/|\.py)`", row[2])
            assert len(names) == len(set(names)), line
            found[int(row[1])] = set(names)
    return found


def arrows(chart: str) -> set[Arrow]:
    """Every `from -> to` of a chart; `a, b -> c | d` is four."""
    found: set[Arrow] = set()
    for before, after in re.findall(r"^(?:-- +)?([\w, ]+?) +-> ([\w |()]+?)(?:  |$)", chart, re.M):
        ends = [end.strip(" ()").removeprefix("row ") for end in after.split("|")]
        found |= set(product(before.split(", "), ends))
    return found


def chart() -> set[Arrow]:
    (found,) = (block for block in blocks(ROOT / "ARCHITECTURE.md") if "enqueue ->" in block.text)
    return arrows(re.sub(r" {2,}(scheduled -> )", r"\n\1", found.text))


def verdicts() -> list[Verdict]:
    """Whatever the judge can say, over claims at and off every bound."""
    judge = Judge(Backoff(jitter=0.0), random.Random(1))
    found = []
    for attempt, released, solo in product((1, 3), (0, 9), (False, True)):
        claim = Claim(1, 7, attempt, 3, released, solo)
        found += [judge.failed(claim, "x"), judge.failed(claim, "x", final=True)]
        found += [judge.snoozed(claim, 1), judge.ungrouped(claim), judge.interrupted(claim, "x")]
        found += [judge.released(claim, started=begun) for begun in (False, True)]
        found += [
            judge.settled(claim, how, "x", Token(1, fence)) for how in How for fence in (0, 7)
        ]
    return found


def changes() -> set[Arrow]:
    """The arrows of all statements that change a task's state or delete it."""
    found: set[Arrow] = set()
    for name, text in statements().items():
        sets = re.findall(r"\bset state = ('\w+'|%\(state\)s)", text)
        if "delete from runner.task" in text or "runner.complete(" in text:
            sets.append(GONE)
        if name in BY_PEOPLE:
            assert "any (%(states)s::text[])" in text, name
            found |= BY_PEOPLE[name]
        elif sets:
            before = re.findall(r"(?<!set )state = '(\w+)'", text) or ["running"]
            targets = STATES - {"running"} if sets[0].startswith("%") else {sets[0].strip("'")}
            # A claim deletes what was done in the same string: `running` is named there twice.
            found |= {arrow for arrow in product(before, targets) if arrow[0] != arrow[1]}
    return found


def test_the_table_of_layers_is_the_one_that_is_enforced() -> None:
    assert rooms(ARCHITECTURE) == {number: set(names) for number, names in enumerate(LAYERS)}


def test_the_states_of_the_chart_are_those_of_the_table() -> None:
    named = {end for arrow in chart() for end in arrow} - {"enqueue", "any", GONE}
    assert named == STATES


def test_the_schema_tells_the_same_chart() -> None:
    assert arrows(SCHEMA.replace("ready      by", "ready  by")) == chart()


def test_every_verdict_is_an_arrow_and_every_arrow_a_verdict() -> None:
    assert {verdict.state for verdict in verdicts()} == {
        after for before, after in chart() if before == "running" and after != GONE
    }


def test_every_change_is_an_arrow_and_every_arrow_a_change() -> None:
    assert changes() == {arrow for arrow in chart() if arrow[0] != "enqueue"}


def test_the_protocol_is_all_that_travels() -> None:
    told = ARCHITECTURE.partition("## Protocol\n")[2].partition("\n## ")[0]
    words = set(re.findall(r"`([A-Z]+)`", told))
    assert words == {one.name for kind in (Kind, Order) for one in kind}


def test_the_readers_read() -> None:
    assert rooms("| 3 | `roles/` a, `app.py` and `x/y.sql` | z |") == {3: {"roles", "app"}}
    assert arrows("a, b -> c   why -> not\n--   d -> e | f  x\n--  g -> (row deleted)   z") == {
        *(("a", "c"), ("b", "c"), ("d", "e"), ("d", "f"), ("g", GONE))
    }
    assert ("running", "ready") in changes()
