"""The one place where a task's fields are judged, before any SQL is sent.

Whatever is refused here would make the server fail, and the transaction of the caller with it, or
would not be read back as it was given. Every refusal is an `InvalidTask` that names the place of
the bad value, as in `params.a[0]`, and never shows the value itself.

What is stored is jsonb. Two params are the same, where uniqueness asks, when their jsonb text is:
the order of keys and white space do not matter; 1, 1.0 and true differ; composed and decomposed
letters differ. A key that is not a string is refused: {1: x} and {"1": x} would become one.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from .errors import InvalidTask
from .fields import (
    check_delay,
    check_key,
    check_max_attempts,
    check_priority,
    check_queue,
    check_run_at,
    check_type,
)
from .text import class_name, shorten

__all__ = [
    "DEPTH_LIMIT",
    "SIZE_LIMIT",
    "check_delay",
    "check_key",
    "check_max_attempts",
    "check_priority",
    "check_queue",
    "check_run_at",
    "check_type",
    "dumps",
    "loads_strict",
]

SIZE_LIMIT = 256 * 1024  # bytes of the JSON text in UTF-8
DEPTH_LIMIT = 100  # [] is 1 deep

# Python reads no integer of more digits unless told to.
_DIGITS = 4300
_INTEGER_BOUND = 10**_DIGITS
_TOO_MANY_DIGITS = f"an integer of more than {_DIGITS} digits cannot be read back"
# From here on repr() of a float has an exponent, and jsonb makes an integer of it.
_EXPONENT_FROM = 1e16
_SHOWN = 40  # characters of a key in a message

_quote: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode
_Path = tuple["_Path", str | int] | None


def dumps(params: Any, *, limit: int = SIZE_LIMIT) -> str:
    """`params` as JSON text that jsonb takes and that is read back equal; tuples become arrays."""
    return _Writer(limit).write(params)


def loads_strict(text: str | bytes, *, limit: int = SIZE_LIMIT) -> Any:
    """The value of JSON text that a person or a foreign program wrote; `dumps` takes it.

    Refused is also what a lenient reader would bend in silence: a key that stands twice, numbers
    that become infinite or zero. Text is limited as it stands, white space included.
    """
    try:
        value = _DECODER.decode(_decode(text, limit))
    except json.JSONDecodeError as error:
        what = error.msg.strip(": ").removesuffix(" at")
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidTask(f"params: not JSON: {what} at {where}") from None
    except RecursionError:
        raise _too_deep() from None
    dumps(value, limit=limit)
    return value


class _Writer:
    """Judges a value and writes it down in the same pass, so that nothing else can be written."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.left = limit

    def write(self, params: Any) -> str:
        text = self._value(params, None, 0)
        if len(text.encode()) > self.limit:
            raise _too_big(self.limit)
        return text

    def _value(self, value: Any, path: _Path, depth: int) -> str:
        if isinstance(value, str):
            text = _string(value, path)
        elif value is None:
            text = "null"
        elif isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, int):
            text = _integer(value, path)
        elif isinstance(value, float):
            text = _float(value, path)
        elif isinstance(value, dict):
            return self._object(value, path, depth + 1)
        elif isinstance(value, list | tuple):
            return self._array(value, path, depth + 1)
        else:
            _refuse(path, f"{class_name(value)} has no JSON form")
        self._spend(len(text))
        return text

    def _object(self, value: dict[Any, Any], path: _Path, depth: int) -> str:
        self._enter(depth)
        members = []
        for key, member in value.items():
            if not isinstance(key, str):
                _refuse(path, f"a key is of type {class_name(key)}, not str")
            inner = (path, key)
            name = _string(key, inner)
            self._spend(len(name))
            members.append(f"{name}:{self._value(member, inner, depth)}")
        return "{" + ",".join(members) + "}"

    def _array(self, value: list[Any] | tuple[Any, ...], path: _Path, depth: int) -> str:
        self._enter(depth)
        items = [self._value(item, (path, index), depth) for index, item in enumerate(value)]
        return "[" + ",".join(items) + "]"

    def _enter(self, depth: int) -> None:
        if depth > DEPTH_LIMIT:
            raise _too_deep()
        self._spend(2)

    def _spend(self, size: int) -> None:
        # At once, not at the end: a small value that contains itself often has no end.
        self.left -= size
        if self.left < 0:
            raise _too_big(self.limit)


def _string(value: str, path: _Path) -> str:
    if "\0" in value:
        _refuse(path, "holds U+0000, which PostgreSQL cannot store")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            _refuse(path, "holds a lone surrogate, which is no Unicode text")
    return _quote(value)


def _integer(value: int, path: _Path) -> str:
    if not -_INTEGER_BOUND < value < _INTEGER_BOUND:
        _refuse(path, _TOO_MANY_DIGITS)
    try:
        return int.__repr__(value)
    except ValueError:  # this interpreter is set to fewer digits
        _refuse(path, _TOO_MANY_DIGITS)


def _float(value: float, path: _Path) -> str:
    if not math.isfinite(value):
        _refuse(path, "NaN and Infinity are not JSON")
    text = float.__repr__(value)
    if abs(value) < _EXPONENT_FROM:
        return text
    digits, _, exponent = text.partition("e+")
    whole, _, fraction = digits.partition(".")
    return f"{whole}{fraction.ljust(int(exponent), '0')}.0"


def _decode(text: str | bytes, limit: int) -> str:
    if len(text) > limit:
        raise _too_big(limit)
    if isinstance(text, str):
        if len(text.encode("utf-8", "surrogatepass")) > limit:
            raise _too_big(limit)
        return text
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise InvalidTask(f"params: not UTF-8 at byte {error.start + 1}") from None


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                _refuse(None, f"the key {_shown(key)} stands twice in one object")
            seen.add(key)
    return read


def _read_integer(text: str) -> int:
    if len(text.lstrip("-")) > _DIGITS:
        _refuse(None, _TOO_MANY_DIGITS)
    try:
        return int(text)
    except ValueError:
        _refuse(None, _TOO_MANY_DIGITS)


def _read_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        _refuse(None, "a number is too large for a float")
    if value == 0 and re.search("[1-9]", text.lower().partition("e")[0]):
        _refuse(None, "a number is too close to zero for a float")
    return value


def _read_constant(text: str) -> NoReturn:
    _refuse(None, f"{text} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_read_object,
    parse_int=_read_integer,
    parse_float=_read_float,
    parse_constant=_read_constant,
)


def _too_big(limit: int) -> InvalidTask:
    return InvalidTask(
        f"params: larger than {limit} bytes", hint="store the data elsewhere and pass where it is"
    )


def _too_deep() -> InvalidTask:
    return InvalidTask(f"params: nested more than {DEPTH_LIMIT} deep")


def _refuse(path: _Path, reason: str) -> NoReturn:
    raise InvalidTask(f"{_place(path)}: {reason}")


def _place(path: _Path) -> str:
    """The path as Python or JavaScript would write it: params.a[0]["odd key"]."""
    steps = []
    while path is not None:
        path, step = path
        if isinstance(step, int):
            steps.append(f"[{step}]")
        elif step.isascii() and step.isidentifier() and len(step) <= _SHOWN:
            steps.append(f".{step}")
        else:
            steps.append(f"[{_shown(step)}]")
    return shorten("params" + "".join(reversed(steps)), 300)


def _shown(key: str) -> str:
    return json.dumps(key if len(key) <= _SHOWN else key[:_SHOWN] + "...")
