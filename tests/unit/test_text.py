"""Text from outside: shown, stored, cut; and errors of every kind, none of which may raise."""

import tracemalloc
import unicodedata
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.text import (
    CAUSE_LIMIT,
    ERROR_LIMIT,
    cause_name,
    class_name,
    error_text,
    one_line,
    redact,
    safe,
    shorten,
    storable,
)
from tests.data import NAUGHTY, label

ACTS = {"Cc", "Cs", "Zl", "Zp", "Co", "Cn"}
BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def is_harmless(text: str) -> bool:
    return not any(unicodedata.category(c) in ACTS or c in BIDI for c in text)


@given(st.text() | st.sampled_from(NAUGHTY))
def test_safe_is_one_harmless_line(text: str) -> None:
    shown = safe(text)
    assert is_harmless(shown)
    assert len(shown.splitlines()) <= 1
    assert safe(shown) == shown
    shown.encode()


@given(st.text() | st.sampled_from(NAUGHTY), st.integers(0, 30))
def test_safe_keeps_its_limit(text: str, limit: int) -> None:
    shown = safe(text, limit)
    assert len(shown) <= limit
    assert is_harmless(shown)
    assert shown == safe(text) or shown.endswith("…") or limit == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [bold] {x} %s \\", "plain [bold] {x} %s \\"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b1m\x00\x7f\x85", "\\x9b1m\\x00\\x7f\\x85"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("\u200b\ufeff\u00ad\U000e0041", "\\u200b\\ufeff\\xad\\U000e0041"),
        ("name \udce9", "name \\udce9"),
        ("日本\u3000語\u00a0é", "日本\u3000語\u00a0é"),
        ("👩\u200d👧", "👩\u200d👧"),
    ],
    ids=label,
)
def test_safe(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_safe_looks_only_at_what_it_shows() -> None:
    assert safe("\0" * 50_000_000, 9) == "\\x00\\x00…"


def test_one_line() -> None:
    assert one_line("  a\r\n\tb\u2028c\x85 d  ") == "a b c d"


@given(st.text() | st.sampled_from(NAUGHTY))
def test_storable(text: str) -> None:
    stored = storable(text)
    assert "\0" not in stored
    stored.encode()
    assert storable(stored) == stored


@given(st.text(), st.integers(0, 200))
def test_shorten(text: str, limit: int) -> None:
    cut = shorten(text, limit)
    assert len(cut) <= limit
    assert cut == text if len(text) <= limit else text.startswith(cut[: limit // 4])


def test_shorten_keeps_both_ends() -> None:
    cut = shorten("head " + "é" * 5000 + " tail", 100)
    assert len(cut) == 100
    assert cut.startswith("head é")
    assert cut.endswith("é tail")
    assert " ... [5010 characters in all] ... " in cut


@pytest.mark.parametrize(
    "spelling",
    [
        "S3/cr t@Xyz'\\",
        "S3%2Fcr%20t%40Xyz%27%5C",
        "S3%2fcr%20t%40Xyz%27%5c",
        "S3/cr%20t%40Xyz%27%5C",
    ],
)
def test_redact(spelling: str) -> None:
    assert redact(f"at {spelling}@host", "S3/cr t@Xyz'\\") == "at ***@host"


def test_redact_in_a_repr() -> None:
    secret = "a'b\"c\\d"
    assert redact(f"password={secret!r}", secret) == "password='***'"


def test_nothing_to_redact() -> None:
    assert redact("text", None) == redact("text", "") == redact("text", "\ud800") == "text"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("wrong"), "ValueError: wrong"),
        (ValueError(), "ValueError"),
        (ValueError("two\nlines"), "ValueError: two\nlines"),
        (KeyError("name"), "KeyError: 'name'"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (ValueError("bad \x00 byte"), "ValueError: bad \\x00 byte"),
        (RuntimeError("name \udce9"), "RuntimeError: name \\udce9"),
        (ExceptionGroup("both", [ValueError()]), "ExceptionGroup: both (1 sub-exception)"),
    ],
    ids=label,
)
def test_error_text(error: BaseException, text: str) -> None:
    assert error_text(error) == text


@given(st.text() | st.sampled_from(NAUGHTY), st.integers(0, 300))
def test_error_text_can_be_stored(message: str, limit: int) -> None:
    text = error_text(ValueError(message), limit)
    assert len(text) <= limit
    assert "\0" not in text
    text.encode()


def test_a_huge_message_stays_small() -> None:
    error = RuntimeError("begin" + "x" * 50_000_000 + "end")
    tracemalloc.start()
    try:
        text = error_text(error)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(text) == ERROR_LIMIT
    assert text.startswith("RuntimeError: beginxxx")
    assert text.endswith("xxxend")
    assert "[50000022 characters in all]" in text
    assert peak < 200_000


def test_a_huge_message_of_escapes() -> None:
    for character in ("\0", "\udce9", "é", "😀"):
        text = error_text(ValueError(character * 1_000_000))
        assert len(text) == ERROR_LIMIT
        text.encode()


class OddStr(str):
    """A str with ways of its own."""

    def _fails(self, *_: object, **__: object) -> NoReturn:
        raise RuntimeError

    __len__ = __getitem__ = __str__ = __format__ = replace = encode = isascii = _fails  # type: ignore[assignment]


def odd_errors() -> list[BaseException]:
    def made(name: str, **members: Any) -> BaseException:
        error: BaseException = type(name, (Exception,), members)("x")
        return error

    def fails(*_: object) -> NoReturn:
        raise ValueError("no")

    def exits(*_: object) -> NoReturn:
        raise SystemExit(0)

    def interrupts(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    def recurses(self: BaseException) -> str:
        return str(self)

    class Meta(type):
        def __getattribute__(cls, name: str) -> NoReturn:
            raise SystemExit

    ring = made("Ring")
    ring.__cause__ = other = made("Ring")
    other.__cause__ = ring
    one_diag = type("Diag", (), {"message_primary": property(exits), "sqlstate": "23505"})()
    return [
        made("StrFails", __str__=fails),
        made("StrExits", __str__=exits),
        made("StrInterrupts", __str__=interrupts),
        made("StrRecurses", __str__=recurses),
        made("StrIsNone", __str__=lambda _: None),
        made("StrIsBytes", __str__=lambda _: b"x"),
        made("StrIsOdd", __str__=lambda _: OddStr("odd")),
        made("GetFails", __getattribute__=exits),
        made("BoolFails", __bool__=fails, __len__=fails, __eq__=fails, __hash__=fails),
        made("DiagFails", diag=property(exits)),
        made("DiagIsOdd", diag=one_diag),
        made("DiagIsText", diag="x", sqlstate=7, statement="x", orig=property(fails)),
        made("ClassFails", orig=type("O", (), {"__class__": property(exits)})(), statement="s"),
        made("Named", __qualname__="a\0b\udce9\x1b[31m", __module__="m\n\u202e"),
        made("Numbered", __module__=7),
        made("Nameless", __module__=None),
        made("Long", __qualname__="x" * 100_000),
        made("é" * 1000),
        Meta("Meta", (Exception,), {})("x"),
        ring,
        ValueError(OddStr("odd")),
        UnicodeDecodeError("utf-8", b"\xff" * 1000, 0, 1, "bad"),
        OSError(2, "no\0", "file\udce9"),
    ]


@pytest.mark.parametrize("number", range(len(odd_errors())))  # they are too odd for pytest
def test_no_exception_is_too_odd(number: int) -> None:
    error = odd_errors()[number]
    for text in (error_text(error), error_text(error, 10), error_text(error, secret="x")):
        assert type(text) is str
        assert 0 < len(text) <= ERROR_LIMIT
        assert "\0" not in text
        text.encode()
    for name in (cause_name(error), class_name(error)):
        assert type(name) is str
        assert 0 < len(name) <= CAUSE_LIMIT
        assert is_harmless(name)


def test_what_odd_errors_say() -> None:
    said = {text.partition(":")[0]: text for text in map(error_text, odd_errors())}
    assert said["StrFails"] == "StrFails: (its message cannot be told: __str__ fails)"
    assert said["StrIsNone"] == "StrIsNone: (its message cannot be told: __str__ fails)"
    assert said["StrIsOdd"] == "StrIsOdd: odd"
    assert said["DiagFails"] == "DiagFails: x"
    assert said["Ring"] == "Ring: x"


def test_cause_name() -> None:
    assert cause_name(ValueError("x")) == "ValueError"
    assert cause_name(local_error()) == "tests.unit.test_text.local_error.<locals>.Own"
    assert class_name(b"") == "bytes"


def local_error() -> Exception:
    class Own(Exception):
        pass

    return Own()


class Diag:
    """What psycopg and psycopg2 tell of an error."""

    message_primary = 'duplicate key value violates unique constraint "person_pkey"'
    message_detail = "Key (name)=(S3cr3tXyz) already exists."
    context = "SQL statement with S3cr3tXyz"
    sqlstate = "23505"


class UniqueViolation(Exception):
    diag = Diag()

    def __str__(self) -> str:
        return f"{Diag.message_primary}\nDETAIL:  {Diag.message_detail}\nCONTEXT:  {Diag.context}"


class AsyncpgError(Exception):
    sqlstate = "23505"
    detail = Diag.message_detail

    def __str__(self) -> str:
        return f"{Diag.message_primary}\nDETAIL:  {self.detail}"


class StatementError(Exception):
    """As SQLAlchemy's."""

    statement = "insert into person values (%s)"

    def __init__(self, orig: BaseException) -> None:
        super().__init__(f"({type(orig).__name__}) {orig}\n[parameters: ('S3cr3tXyz',)]")
        self.orig = orig


def raised_from(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


DATABASE_ERRORS = [
    UniqueViolation(),
    AsyncpgError(),
    StatementError(UniqueViolation()),
    StatementError(raised_from(ValueError(str(AsyncpgError())), AsyncpgError())),
    raised_from(ValueError(*[str(UniqueViolation())]), UniqueViolation()),  # as Django's
    raised_from(RuntimeError(f"could not: {AsyncpgError()}"), AsyncpgError()),
]


@pytest.mark.parametrize("error", DATABASE_ERRORS, ids=label)
def test_no_values_of_rows(error: BaseException) -> None:
    text = error_text(error)
    assert "S3cr3tXyz" not in text
    assert Diag.message_primary in text


def test_a_database_error_tells_its_code() -> None:
    assert error_text(UniqueViolation()) == f"UniqueViolation: {Diag.message_primary} (23505)"


def test_detail_elsewhere_is_not_left_out() -> None:
    error = ValueError("404: not found")
    error.detail = "not found"  # type: ignore[attr-defined]
    error.orig = KeyError("x")  # type: ignore[attr-defined]
    assert error_text(error) == "ValueError: 404: not found"


def test_the_secret_is_gone_before_the_text_is_cut() -> None:
    secret = "S3cr3tXyz"
    for at in range(1000):
        text = error_text(ValueError("x" * at + secret + "y" * 2000), 1000, secret)
        assert "S3cr" not in text
        assert "tXyz" not in text
