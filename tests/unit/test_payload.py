"""What may be stored as a task: params, names, numbers and times."""

import enum
import json
import math
import re
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import payload
from runner.errors import InvalidTask
from tests.data import ACCEPTED, NAUGHTY, REFUSED, label

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(
    SCALAR, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20
)
ANYTHING = st.recursive(
    st.none() | st.floats() | st.text() | st.binary() | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=10,
)
ANNEX = namedtuple("ANNEX", "a b")


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 9


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down: 1, 1.0 and True are three values here."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def attempt(judge: Callable[[Any], str], value: Any) -> tuple[str, str]:
    """What came back, and what the refusal said; one of them is empty."""
    try:
        return judge(value), ""
    except InvalidTask as refused:
        return "", str(refused)


@given(JSON)
def test_what_is_written_reads_back_equal(params: Any) -> None:
    text = payload.dumps(params)
    assert same(json.loads(text), params)
    assert same(payload.loads_strict(text), params)


@given(st.floats(min_value=1e15, allow_infinity=False) | st.floats(-1e308, -1e15))
def test_a_large_float_stays_a_float_in_jsonb(number: float) -> None:
    text = payload.dumps(number)
    assert "e" not in text
    assert same(json.loads(text), number)


@given(ANYTHING)
def test_anything_else_is_refused_and_named(params: Any) -> None:
    text, refusal = attempt(payload.dumps, params)
    assert re.fullmatch(r"params[ -~]+", refusal or "params: none")
    assert "\\u0000" not in text.replace("\\\\", "")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (math.nan, "params: NaN and Infinity are not JSON"),
        ({"a": [1, math.inf]}, "params.a[1]: NaN and Infinity are not JSON"),
        ([-math.inf], "params[0]: NaN and Infinity are not JSON"),
        ({"a": ["x\0"]}, "params.a[0]: holds U+0000, which PostgreSQL cannot store"),
        ({"x\0": 1}, 'params["x\\u0000"]: holds U+0000, which PostgreSQL cannot store'),
        ({"f": "\ud800"}, "params.f: holds a lone surrogate, which is no Unicode text"),
        ({"\udce9": 1}, 'params["\\udce9"]: holds a lone surrogate, which is no Unicode text'),
        ({1: "x"}, "params: a key is of type int, not str"),
        ({"a": {None: 1}}, "params.a: a key is of type NoneType, not str"),
        ({True: 1}, "params: a key is of type bool, not str"),
        ({1.5: 1}, "params: a key is of type float, not str"),
        ({"a": b"x"}, "params.a: bytes has no JSON form"),
        ([{1, 2}], "params[0]: set has no JSON form"),
        (Decimal("1.5"), "params: decimal.Decimal has no JSON form"),
        ({"on": date(2026, 1, 1)}, "params.on: datetime.date has no JSON form"),
        ({"a key": object()}, 'params["a key"]: object has no JSON form'),
        ({"é": {"x": [None, object()]}}, 'params["\\u00e9"].x[1]: object has no JSON form'),
        (10**4300, "params: an integer of more than 4300 digits cannot be read back"),
        ([-(10**4300)], "params[0]: an integer of more than 4300 digits cannot be read back"),
    ],
    ids=label,
)
def test_refusals_name_the_place(params: Any, message: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        payload.dumps(params)
    assert str(refused.value) == message
    assert isinstance(refused.value, ValueError)
    assert refused.value.exit_code == 2


def test_a_value_is_never_shown() -> None:
    for params in ({"password": "S3cr3tXyz\0"}, {"a": "S3cr3tXyz\ud800"}, ["S3cr3tXyz" * 40_000]):
        with pytest.raises(InvalidTask) as refused:
            payload.dumps(params)
        assert "S3cr3tXyz" not in str(refused.value)


def test_a_long_path_stays_short() -> None:
    params: Any = math.nan
    for _ in range(90):
        params = {"k" * 1000: params}
    with pytest.raises(InvalidTask, match="NaN and Infinity") as refused:
        payload.dumps(params)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ((1, (2,)), "[1,[2]]"),
        (ANNEX(1, "x"), '[1,"x"]'),
        (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        ([Colour.RED, Level.HIGH], '["red",9]'),
        (1e16, "10000000000000000.0"),
        (-1.25e22, "-12500000000000000000000.0"),
        (sys.float_info.max, "17976931348623157" + "0" * 292 + ".0"),
        ("é\u2028\n\x7f", '"é\u2028\\n\x7f"'),
    ],
    ids=label,
)
def test_spelling(params: Any, text: str) -> None:
    assert payload.dumps(params) == text


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_depth() -> None:
    assert payload.dumps(nested(100)) == "[" * 100 + "]" * 100
    for levels in (101, 100_000):
        with pytest.raises(InvalidTask, match=r"^params: nested more than 100 deep$"):
            payload.dumps(nested(levels))


def test_a_value_that_contains_itself() -> None:
    loop: list[Any] = []
    loop += [loop, loop]
    with pytest.raises(InvalidTask, match="nested more than 100 deep"):
        payload.dumps(loop)
    wide: Any = "laugh"
    for _ in range(90):
        wide = [wide, wide]
    with pytest.raises(InvalidTask, match="larger than 262144 bytes"):
        payload.dumps(wide)


def test_size() -> None:
    most = payload.SIZE_LIMIT
    assert len(payload.dumps("x" * (most - 2))) == most
    assert len(payload.dumps("é" * (most // 2 - 1)).encode()) == most
    for params in ("x" * (most - 1), "é" * (most // 2), "\n" * (most // 2), ["x"] * most):
        with pytest.raises(InvalidTask, match="larger than 262144 bytes") as refused:
            payload.dumps(params)
        assert refused.value.hint is not None
    assert payload.dumps("x" * most, limit=most + 2)
    with pytest.raises(InvalidTask, match="larger than 10 bytes"):
        payload.dumps("x" * 9, limit=10)


@pytest.mark.parametrize("text", ACCEPTED, ids=label)
def test_a_strict_reader_takes(text: str) -> None:
    value = payload.loads_strict(text)
    assert same(value, json.loads(text))
    assert same(payload.loads_strict(text.encode()), value)
    assert same(json.loads(payload.dumps(value)), value)


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=label)
def test_a_strict_reader_refuses(text: str, message: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        payload.loads_strict(text)
    assert message in str(refused.value)
    assert str(refused.value).startswith("params")
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "text", [b"\xff", b'"\xc3"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b"\xff\xfe[\0]\0"]
)
def test_bytes_that_are_no_text(text: bytes) -> None:
    with pytest.raises(InvalidTask, match="params: not UTF-8 at byte"):
        payload.loads_strict(text)


def test_a_strict_reader_and_size() -> None:
    for text in (" " * 262_143 + "1", '"' + "é" * 131_071 + '"'):
        assert payload.loads_strict(text)
        for longer in (text + " ", text.encode() + b" "):
            with pytest.raises(InvalidTask, match="larger than 262144 bytes"):
                payload.loads_strict(longer)


@given(st.text() | st.binary())
def test_a_strict_reader_raises_nothing_else(text: str | bytes) -> None:
    try:
        value = payload.loads_strict(text)
    except InvalidTask:
        return
    payload.dumps(value)


@pytest.mark.parametrize("text", NAUGHTY, ids=label)
def test_naughty_strings(text: str) -> None:
    if "\0" in text or any(0xD800 <= ord(character) < 0xE000 for character in text):
        for params in (text, {text: 1}, [text]):
            with pytest.raises(InvalidTask, match=r"U\+0000|surrogate"):
                payload.dumps(params)
    else:
        assert json.loads(payload.dumps({text: [text]})) == {text: [text]}
    for check in (payload.check_queue, payload.check_type, payload.check_key):
        name, refusal = attempt(check, text)
        assert (name or "printable").isprintable()
        assert (refusal or "printable").isprintable()


def test_fewer_digits_than_usual() -> None:
    usual = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        for judge, given_ in ((payload.dumps, 10**1000), (payload.loads_strict, "9" * 1000)):
            with pytest.raises(InvalidTask, match="digits"):
                judge(given_)
    finally:
        sys.set_int_max_str_digits(usual)


@pytest.mark.parametrize("name", ["default", "q", "übergabe", "a b", "a/b:c.d", "x" * 63, "é" * 31])
def test_queue(name: str) -> None:
    assert payload.check_queue(name) == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("x" * 64, "longer than 63 bytes"),
        ("é" * 32, "longer than 63 bytes"),
        (" x", "begins or ends with a blank"),
        ("x ", "begins or ends with a blank"),
        ("a=1", "'=' and ','"),
        ("a,b", "'=' and ','"),
        ("a\nb", "does not print"),
        ("\x1b[31m", "does not print"),
        ("\udce9", "does not print"),
        ("a\0", "does not print"),
        (None, "NoneType is no text"),
        (b"x", "bytes is no text"),
    ],
    ids=label,
)
def test_no_queue(name: Any, message: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        payload.check_queue(name)
    assert str(refused.value).startswith("queue: ")
    assert message in str(refused.value)


def test_type_and_key() -> None:
    assert payload.check_type("resize_photo")
    assert payload.check_type("x" * 255)
    assert payload.check_key("a=b, c " + "x" * 505)
    for check, name in (
        (payload.check_type, ""),
        (payload.check_type, "x" * 256),
        (payload.check_type, "bad\0"),
        (payload.check_type, "bad\ud800"),
        (payload.check_key, ""),
        (payload.check_key, "x" * 513),
        (payload.check_key, 7),
    ):
        with pytest.raises(InvalidTask):
            check(name)  # type: ignore[arg-type]


def test_numbers() -> None:
    assert [payload.check_priority(number) for number in (0, 5, 9)] == [0, 5, 9]
    assert payload.check_max_attempts(10_000) == 10_000
    for wrong in (-1, 10, True, 5.0, "5", None, 10**100):
        with pytest.raises(InvalidTask, match=r"^priority: "):
            payload.check_priority(wrong)  # type: ignore[arg-type]
    for wrong in (0, -1, 10_001, True, 5.0, "5", None):
        with pytest.raises(InvalidTask, match=r"^max_attempts: "):
            payload.check_max_attempts(wrong)  # type: ignore[arg-type]


def test_delay() -> None:
    assert payload.check_delay(0) == 0
    assert payload.check_delay(1.5) == 1.5
    assert payload.check_delay(timedelta(minutes=5)) == 300
    for wrong in (-1, math.nan, math.inf, 1e10, True, "5m", None, timedelta(-1), 10**400):
        with pytest.raises(InvalidTask, match=r"^delay: "):
            payload.check_delay(wrong)  # type: ignore[arg-type]


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN),  # does not exist
        datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9000, 12, 31, 23, 59, tzinfo=UTC),
    ],
    ids=label,
)
def test_run_at(moment: datetime) -> None:
    assert payload.check_run_at(moment) is moment


@pytest.mark.parametrize(
    ("moment", "message"),
    [
        (datetime(2026, 1, 1), "without a time zone"),
        (datetime(1969, 12, 31, tzinfo=UTC), "between 1970"),
        (datetime(9001, 1, 1, tzinfo=UTC), "between 1970"),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))), "between 1970"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), "between 1970"),
        (date(2026, 1, 1), "datetime.date is no datetime"),
        ("2026-01-01", "str is no datetime"),
        (1.5, "float is no datetime"),
    ],
    ids=label,
)
def test_no_run_at(moment: Any, message: str) -> None:
    with pytest.raises(InvalidTask, match=r"^run_at: ") as refused:
        payload.check_run_at(moment)
    assert message in str(refused.value)
