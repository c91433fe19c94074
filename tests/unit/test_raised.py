"""Where a handler raised: file, line and function, few of them, and no values."""

import json

import pytest

from runner.postmortem import FRAMES, LONGEST, NOT_THERE, RAISED, raised


def deep(levels: int, secret: str) -> None:
    if levels:
        deep(levels - 1, secret)
    raise ValueError(secret)


def caught(levels: int) -> BaseException:
    try:
        deep(levels, "hunter2")
    except ValueError as error:
        return error
    raise AssertionError


def test_a_few_frames_and_the_outermost() -> None:
    head, *frames = raised(caught(500)).splitlines()
    assert head == RAISED
    assert len(frames) == FRAMES + 2
    assert frames[0].endswith(" in deep")
    assert 'test_raised.py", line' in frames[0]
    assert frames[-2] == f"  … {502 - FRAMES - 1} more"
    assert frames[-1].endswith(" in caught")


def test_short_ones_are_whole_and_without_values() -> None:
    text = raised(caught(1))
    assert [line.rpartition(" ")[2] for line in text.splitlines()[1:]] == ["deep", "deep", "caught"]
    assert "hunter2" not in text


def test_names_from_outside_cannot_act_and_are_bounded() -> None:
    code = compile("def f(): 1 / 0\nf()", "\x1b[31m\u202e\udc80" + "x" * 9000 + "\x1b", "exec")
    try:
        exec(code)
    except ZeroDivisionError as error:
        text = raised(error)
    assert len(text) <= LONGEST
    assert all(line.isprintable() for line in text.splitlines())
    assert "\\x1b" in text


def test_none_without_a_frame() -> None:
    assert raised(ValueError()) == NOT_THERE
    with pytest.raises(ValueError, match="Expecting") as found:
        json.loads("{")
    assert "decoder.py" in raised(found.value)
