"""Text from outside, made fit to be stored, logged or shown. Nothing here ever raises."""

import re
import urllib.parse
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")

ERROR_LIMIT = 1000  # characters of an error that are stored
CAUSE_LIMIT = 200

_MARK = " ... [{} characters in all] ... "
_CHAIN_LIMIT = 20  # causes of causes may form a ring

# Not printable by str.isprintable(), yet wanted: joiners, without which Persian, Indic scripts and
# emoji fall apart.
_JOINERS = frozenset("\u200c\u200d")


def safe(text: str, limit: int | None = None) -> str:
    """`text` on one line, fit for a terminal, in at most `limit` characters.

    Control, escape and bidi characters, lone surrogates and whatever else would not show are
    written as escapes, so that nothing acts and nothing hides. Markup is left alone: hand the
    result to Rich as `Text`, not as markup.
    """
    cut = text if limit is None else text[: limit + 1]
    if not cut.isprintable():
        cut = "".join(map(_visible, cut))
    if limit is not None and len(cut) > limit:
        cut = cut[: max(limit - 1, 0)] + "…" if limit > 0 else ""
    return cut


def one_line(text: str) -> str:
    """The words of `text` with one blank between them, whatever white space was there."""
    return " ".join(text.split())


def storable(text: str) -> str:
    """`text` as PostgreSQL takes it: NUL and lone surrogates written as escapes."""
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text.replace("\0", "\\x00")


def shorten(text: str, limit: int) -> str:
    """Head and tail of `text`, `limit` characters in all, and a mark where something is missing."""
    return _shorten(text, limit, len(text))


def redact(text: str, secret: str | None) -> str:
    """`text` without `secret`, also where a URL or a repr has it in another spelling."""
    if not secret:
        return text
    spellings = {secret, repr(secret)[1:-1]}
    for plain in ("", "/"):
        quoted = urllib.parse.quote(secret, plain, "utf-8", "surrogatepass")
        spellings |= {quoted, re.sub("%..", lambda pair: pair[0].lower(), quoted)}
    for spelling in sorted(spellings, key=len, reverse=True):
        text = text.replace(spelling, "***")
    return text


def error_text(error: BaseException, limit: int = ERROR_LIMIT, secret: str | None = None) -> str:
    """`ClassName: message` of any exception, in at most `limit` characters that can be stored.

    Of a database error only the message and its code: DETAIL and CONTEXT hold values of rows.
    """
    name = _class_text(error, "__name__") or "Exception"
    message = redact(_message(error), secret)
    text = f"{name[:CAUSE_LIMIT]}: {_ends(message, limit)}" if message else name[:CAUSE_LIMIT]
    missing = max(len(message) - 2 * limit, 0)
    text = storable(text)
    return _shorten(text, limit, len(text) + missing)


def attempts(count: int) -> str:
    """`1 attempt`, `3 attempts`."""
    return plural(count, "attempt")


def plural(count: int, word: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def cause_name(error: BaseException) -> str:
    """The name of the exception's class, as in `psycopg.errors.UniqueViolation`."""
    return class_name(error)


def class_name(thing: object) -> str:
    """The name of the class of `thing` with its module, unless that is builtins or ours."""
    module = _class_text(thing, "__module__")
    name = _class_text(thing, "__qualname__") or "?"
    bare = module in (None, "builtins") or str(module).startswith("runner.")
    return safe(name if bare else f"{module}.{name}", CAUSE_LIMIT)


def _visible(character: str) -> str:
    if character.isprintable() or character in _JOINERS or _is_blank(character):
        return character
    return repr(character)[1:-1]


def _is_blank(character: str) -> bool:
    """No-break and ideographic spaces and their like, but nothing that ends a line."""
    return character.isspace() and character > "\x9f" and character not in "\u2028\u2029"


def _ends(text: str, length: int) -> str:
    """The first and the last `length` characters: what a cut of escaped text can still reach."""
    return text if len(text) <= 2 * length else text[:length] + text[-length:]


def _shorten(text: str, limit: int, length: int) -> str:
    if length <= limit:
        return text
    mark = _MARK.format(length)
    room = limit - len(mark)
    if room < len(mark):
        return text[: max(limit, 0)]
    tail = room // 3
    return text[: room - tail] + mark + text[len(text) - tail :]


def _message(error: BaseException) -> str:
    """What the exception says, without values of rows."""
    # SQLAlchemy keeps the driver's error here and adds statement and parameters to its own text.
    if _attribute(error, "statement", str) is not None:
        inner = _attribute(error, "orig", BaseException)
        error = error if inner is None else inner
    primary, code = _field(error, "message_primary"), _field(error, "sqlstate")
    if primary is not None:
        return f"{primary} ({code})" if code else primary
    message = _said(error)
    # Django repeats the text of the driver's error, which is then its cause.
    for other in filter(_is_from_database, _chain(error)):
        for name in ("message_detail", "detail", "context"):
            values = _field(other, name)
            message = message.replace(values, "[left out]") if values else message
    return message


def _said(error: BaseException) -> str:
    try:
        return str.__str__(str(error))  # the inner one may be of a subclass with ways of its own
    except BaseException:
        return "(its message cannot be told: __str__ fails)"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those behind it."""
    behind: BaseException | None = error
    for _ in range(_CHAIN_LIMIT):
        if behind is None:
            return
        yield behind
        cause = _attribute(behind, "__cause__", BaseException)
        behind = _attribute(behind, "__context__", BaseException) if cause is None else cause


def _is_from_database(error: BaseException) -> bool:
    return _field(error, "sqlstate") is not None


def _field(error: BaseException, name: str) -> str | None:
    """A field of a database error: psycopg and psycopg2 have it under `diag`, asyncpg directly."""
    diag = _attribute(error, "diag", object)
    value = _attribute(error if diag is None else diag, name, str)
    return None if value is None else str.__str__(value)


def _class_text(thing: object, name: str) -> str | None:
    value = _attribute(type(thing), name, str)
    return None if value is None else str.__str__(value)


def _attribute(thing: object, name: str, kind: type[T]) -> T | None:
    """An attribute if it is there and of this kind; a property that raises counts as not there."""
    try:
        value = getattr(thing, name, None)
        return value if isinstance(value, kind) else None
    except BaseException:
        return None
