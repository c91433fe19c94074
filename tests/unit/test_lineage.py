"""docs/lineage.md keeps its word: every row is there, and so is whatever it names."""

import ast
import re
from functools import cache

import pytest

from tests.docs import ROOT

LATER = "later step"
ORDER = [
    f"{part}{n}" for part, most in (("A", 19), ("B", 13), ("C", 14)) for n in range(1, most + 1)
]
NAMED = re.compile(r"`([^`\s]+)`")
TEXT = (ROOT / "docs" / "lineage.md").read_text("utf-8")
ROWS = {
    cells[0]: cells
    for line in TEXT.partition("## Deviations")[0].splitlines()
    if (cells := [cell.strip() for cell in line.strip("|").split(" | ")])
    and re.fullmatch(r"[ABC]\d+", cells[0])
}  # fmt: skip


@cache
def functions(path: str) -> frozenset[str]:
    """Every function, method and class that a file defines."""
    nodes = ast.walk(ast.parse((ROOT / path).read_text("utf-8")))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return frozenset(node.name for node in nodes if isinstance(node, kinds))


def headings(path: str) -> set[str]:
    """The anchors of a document's headings."""
    found = re.findall(r"^#+ (.*)$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def missing(name: str) -> str | None:
    """What is not there of `path`, `path:function`, `path::test` or `path#heading`."""
    path, mark, inside = re.fullmatch(r"([^:#]+)(::|:|#)?(.*)", name).groups()  # type: ignore[union-attr]
    if not (ROOT / path).exists():
        return f"no file {path}"
    if mark == "#":
        return None if inside in headings(path) else f"no heading {inside} in {path}"
    if mark and inside not in functions(path):
        return f"no {inside} in {path}"
    return None


def test_every_row_is_there_once_and_in_order() -> None:
    assert list(ROWS) == ORDER
    assert TEXT.partition("## Deviations")[0].count("\n| A1 |") == 1


@pytest.mark.parametrize("row", ORDER)
def test_a_row_names_what_exists(row: str) -> None:
    _, meaning, place, shown = ROWS[row]
    assert meaning
    assert [why for name in NAMED.findall(place) if "/" in name or "." in name
            if (why := missing(name))] == []  # fmt: skip
    evidence = NAMED.findall(shown)
    assert evidence or shown == LATER, f"{row} is shown by nothing"
    for name in evidence:
        assert missing(name) is None
        assert "#" in name or re.match(r"tests/.*\.py::test_\w+$", name), name


def test_what_is_later_is_not_much() -> None:
    assert [row for row, cells in ROWS.items() if cells[3] == LATER] == []


def test_the_tables_of_reliability_name_what_exists() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    failures, checklist = text.partition("## Checklist")[::2]
    for table, most in ((failures, 5), (checklist, 9)):
        lines = [line for line in table.partition("\n## What")[0].splitlines() if "`tests/" in line]
        assert len(lines) == most
    rows = "".join(line for line in text.splitlines() if line.startswith("|"))
    named = [name for name in NAMED.findall(rows) if "/" in name]
    assert [why for name in named if (why := missing(name))] == []


def test_the_check_finds_what_it_is_for() -> None:
    assert missing("runner/nowhere.py") == "no file runner/nowhere.py"
    assert missing("runner/judge.py:acquit") == "no acquit in runner/judge.py"
    assert missing("tests/unit/test_judge.py::test_no") == "no test_no in tests/unit/test_judge.py"
    assert missing("README.md#nothing") == "no heading nothing in README.md"
    assert missing("runner/judge.py:failed") is missing("README.md#stopping") is None
