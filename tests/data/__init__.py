"""The strings and texts of this directory, as the tests use them."""

import json
from itertools import chain
from pathlib import Path

_HERE = Path(__file__).parent
_TEXTS = json.loads((_HERE / "json_texts.json").read_text())

NAUGHTY: list[str] = list(
    chain.from_iterable(json.loads((_HERE / "naughty.json").read_text()).values())
)
ACCEPTED: list[str] = [*_TEXTS["accepted"], "9" * 4300, "[" * 100 + "]" * 100]
REFUSED: list[tuple[str, str]] = [
    *map(tuple, _TEXTS["refused"]),
    ("9" * 4301, "more than 4300 digits"),
    ("-" + "9" * 4301, "more than 4300 digits"),
    ("[" * 101 + "]" * 101, "nested more than 100 deep"),
    ('{"a":' * 101 + "1" + "}" * 101, "nested more than 100 deep"),
    ("[" * 100_000, "nested more than 100 deep"),
]


def label(value: object) -> str:
    """A short name for a test that is given this value."""
    return ascii(value)[:30] if isinstance(value, str) else type(value).__name__
