"""Durations and sizes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.units import LONGEST_SECONDS, parse_duration, parse_size
from tests.data import label


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("30", 30),
        ("250ms", 0.25),
        ("30s", 30),
        ("5m", 300),
        ("1.5h", 5400),
        ("2d", 172_800),
        (" 5 M ", 300),
        ("2.", 2),
        ("36500d", LONGEST_SECONDS),
    ],
)
def test_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "-5m",
        "+5m",
        "nan",
        "inf",
        "1e9",
        "5x",
        "5 minutes",
        "m",
        ".5",
        "1h30m",
        "1,5h",
        "٣s",
        "5m\n5",
        "5\0",
        "\ud800",
        "9" * 31,
        "36501d",
        "9" * 30,
        "1" * 10_000_000,
    ],
    ids=label,
)
def test_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no duration|more than 100 years") as refused:
        parse_duration(text)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1000", 1000),
        ("1000B", 1000),
        ("64kB", 65_536),
        ("64K", 65_536),
        ("64KiB", 65_536),
        ("512MB", 512 << 20),
        ("512 mb", 512 << 20),
        ("1.5G", 3 << 29),
        ("1T", 1 << 40),
        ("0.5", 1),
    ],
)
def test_size(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1MB", "nan", "1e9", "12XB", "MB", "1PB", "9" * 30 + "T"])
def test_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no size|more than any machine"):
        parse_size(text)


@given(st.text())
def test_nothing_but_a_value_error(text: str) -> None:
    for parse in (parse_duration, parse_size):
        with suppress(ValueError):
            assert parse(text) >= 0
