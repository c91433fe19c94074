"""The help of every verb: an example that parses, and a line of help for every option."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from runner.cli.examples import EXAMPLES
from runner.cli.root import root
from runner.cli.settings import Settings


def verbs(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every verb, and the verbs of groups."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from verbs(inner, (*words, name))
    else:
        yield words


ALL = [*verbs(root)]


def ours(line: str) -> list[str]:
    """The words of our command in a line, without what the shell does around it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>&()")
    lexer.whitespace_split = True
    words = list(lexer)
    if "runner" not in words:
        inside = re.search(r"\$\((runner [^)]*)\)", line)
        assert inside is not None, line
        words = shlex.split(inside[1])
    after = words[words.index("runner") + 1 :]
    return after[: next((n for n, w in enumerate(after) if w[0] in "|>&()"), len(after))]


def parse(words: list[str]) -> tuple[str, ...]:
    """The verb that the words name; click's own error when they do not parse."""
    command: click.Command = root
    context = root.make_context("runner", words, obj=Settings())
    rest, named = [*context._protected_args, *context.args], ()
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        assert name is not None
        named, command = (*named, name), found
        context = command.make_context(name, rest, parent=context)
        rest = [*context._protected_args, *context.args]
    return named


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_verb_has_an_example_that_parses(words: tuple[str, ...]) -> None:
    assert parse(ours(EXAMPLES[" ".join(words)])) == words


def test_no_example_is_of_a_verb_that_is_not_there() -> None:
    assert {" ".join(words) for words in ALL} == set(EXAMPLES)


def test_the_check_finds_what_it_is_for() -> None:
    with pytest.raises(click.NoSuchOption):
        parse(ours("runner start --porcs 8"))
    assert ours("find . | runner enqueue x --from - > log") == ["enqueue", "x", "--from", "-"]
    assert ours('psql "$(runner db url)"') == ["db", "url"]


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_shows_it_and_fits_a_terminal(words: tuple[str, ...]) -> None:
    command: click.Command = root
    context = click.Context(root, info_name="runner", max_content_width=100, terminal_width=100)
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(context, word)
        assert found is not None
        command = found
        context = click.Context(command, parent=context, info_name=word, terminal_width=100)
    text = command.get_help(context)
    assert f"Example:\n    {EXAMPLES[' '.join(words)]}" in text
    assert max(map(len, text.splitlines())) <= 100
    assert command.help
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            assert param.help, f"{words}: {param.name} has no help"
