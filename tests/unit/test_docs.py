"""The documents hold together: snippets parse, commands and links exist."""

import re
import shlex
from pathlib import Path

import click
import pytest

from runner.cli.root import root
from tests.docs import DOCUMENTS, NOT_RUN, ROOT, RUN, Block, blocks, command_lines, typed, ways
from tests.unit.test_lineage import missing

LANGUAGES = {"", "python", "sql", "sh", "console", "json", "ini", "yaml", "dockerfile"}
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
each_document = pytest.mark.parametrize(
    "path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)


@each_document
def test_snippets_parse(path: Path) -> None:
    for block in blocks(path):
        assert block.language in LANGUAGES, block.place
        if block.language == "python":
            compile(block.text, block.place, "exec")


@each_document
def test_every_fence_is_closed(path: Path) -> None:
    assert path.read_text("utf-8").count("\n```") == 2 * len(blocks(path))


@each_document
def test_links_lead_somewhere(path: Path) -> None:
    broken = [
        target for target in LINK.findall(path.read_text("utf-8"))
        if not (path.parent / target).exists()
    ]  # fmt: skip
    assert broken == []


@each_document
def test_commands_exist_with_their_options(path: Path) -> None:
    for place, line in command_lines(path):
        words = shlex.split(line.split(" | ")[0])[1:]
        context = click.Context(root, info_name="runner")
        command: click.Command = root
        known = {name for param in root.params for name in param.opts + param.secondary_opts}
        for word in words:
            if isinstance(command, click.Group) and not word.startswith("-"):
                found = command.get_command(context, word)
                assert found is not None, f"{place}: no verb {word}"
                command = found
                known |= {n for param in found.params for n in param.opts + param.secondary_opts}
            elif word.startswith("-"):
                assert word.partition("=")[0] in known, f"{place}: no option {word}"


def test_the_search_finds_them() -> None:
    assert len(command_lines(ROOT / "README.md")) >= 5
    assert {block.language for block in blocks(ROOT / "docs" / "handlers.md")} == {"python", "sql"}


@each_document
def test_every_snippet_is_run_or_has_a_reason(path: Path) -> None:
    """Add what is found here to RUN, or with a reason to NOT_RUN, in tests/docs.py."""
    for block in blocks(path):
        assert len(ways(block)) == 1, f"{block.place}: {ways(block) or 'neither run nor excused'}"


def test_what_is_said_to_run_a_snippet_exists() -> None:
    tests = [test for told in RUN.values() for test in told.values()]
    assert [why for test in tests if (why := missing(test))] == []
    assert [test for test in tests if "::test_" not in test] == []


def test_nothing_is_said_of_snippets_that_are_gone() -> None:
    for document, beginning in (
        (name, key) for told in (RUN, NOT_RUN) for name in told for key in told[name]
    ):
        there = blocks(ROOT / document)
        assert any(block.begins(beginning) for block in there), f"{document}: {beginning}"


def test_a_new_snippet_is_noticed() -> None:
    new = Block(ROOT / "README.md", 1, "sh", "runner start --procs 9\n", "")
    assert ways(new) == []
    assert typed(new._replace(text="$ a b  # c\n# d\ne 'f#g' \\\n   h\n")) == ["a b", "e 'f#g' h"]
