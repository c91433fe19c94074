"""docs/comparison.md: whatever is said of others has its source, and no source is there for nothing."""

import re

from tests.docs import ROOT

TEXT, SOURCES = (ROOT / "docs" / "comparison.md").read_text("utf-8").split("## Sources")
OTHERS = [
    "celery",
    "rq",
    "procrastinate",
    "pgqueuer",
    "oban",
    "river",
    "graphile-worker",
    "solid_queue",
]
REFERENCE = re.compile(r"\[([A-Z]\d)\]")


def test_every_reference_has_one_source_and_every_source_a_reference() -> None:
    listed = re.findall(r"^- \[([A-Z]\d)\] [\w-]+/[\w-]+ [0-9a-f]{7,9}, \S", SOURCES, re.MULTILINE)
    assert len(listed) == len(set(listed)) == SOURCES.count("\n- ")
    assert set(listed) == set(REFERENCE.findall(TEXT))


def test_every_cell_about_others_has_a_source_or_is_empty() -> None:
    """Also without one: what follows from the store, which the first cell gives the source of."""
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and "[" in line]
    assert {row.split(" | ")[0].strip("| ") for row in rows} == set(OTHERS)
    for row in rows:
        for cell in (cell.strip() for cell in row.strip("|").split("|")[1:]):
            follows = cell in ("", "no") or cell.startswith("no: the store")
            assert follows or REFERENCE.search(cell), row


def test_every_other_tool_is_also_praised() -> None:
    praise = TEXT.partition("## What they do better")[2].partition("\n## ")[0]
    for name in OTHERS:
        (entry,) = re.findall(rf"^- \*\*{name}\*\*: ((?:.|\n )*)", praise, re.MULTILINE)
        assert REFERENCE.search(entry), name
