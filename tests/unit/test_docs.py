"""The documents hold together: snippets parse, commands and links exist."""

import re
import shlex
from pathlib import Path

import click
import pytest

from runner.cli.root import root
from tests.docs import DOCUMENTS, ROOT, blocks, command_lines

LANGUAGES = {"", "python", "sql", "sh", "console", "json", "ini", "yaml"}
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


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
        words = shlex.split(line.removeprefix("$ ").split(" | ")[0])[1:]
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
