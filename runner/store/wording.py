"""What the wording of a handler's statement tells: that it ends the transaction, or leaves traces."""

import re
from functools import lru_cache
from typing import NamedTuple

_BLANKS = re.compile(r"(?:\s|;|--[^\r\n]*)*+")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_ENDS_TRANSACTION = re.compile(
    r"(commit|end|rollback(?!\s+(?:work\s+|transaction\s+)?to\b)|abort|prepare\s+transaction)\b",
    re.IGNORECASE,
)
_LEAVES_TRACES = re.compile(
    r"\b(set|reset|listen|temp|temporary|pg_temp|declare|set_config|pg_(try_)?advisory_lock\w*"
    # BEGIN in a transaction warns, and chooses the isolation level all the same: COMMIT AND CHAIN would
    # hand that on.
    r"|load|do|prepare|deallocate|discard|isolation)\b",
    re.IGNORECASE,
)
# In these SET and DO are parts of the statement, as in `update … set` and `on conflict do nothing`.
_ON_ROWS = re.compile(r"(select|insert|update|delete|merge|with|values)\b", re.IGNORECASE)
_LEAVES_TRACES_ON_ROWS = re.compile(
    r"\b(temp|temporary|pg_temp|set_config|pg_(try_)?advisory_lock\w*)\b", re.IGNORECASE
)
_OPENS_SAVEPOINT = re.compile(r"\bsavepoint\b", re.IGNORECASE)
_REMEMBERED = 2000  # characters of a statement that is worth a place in a cache


class Wording(NamedTuple):
    """`ends`: the word with which a statement would end the transaction, None if it does not begin so.
    `may_end_later`: an end may stand behind another statement of the same string; or in a literal or a
    function's body: only the server can tell. `leaves_traces`: it may leave something in the session
    that outlives its transaction. `opens_savepoint`: it may; one whose text nobody knows may."""

    ends: str | None
    may_end_later: bool
    leaves_traces: bool
    opens_savepoint: bool


def wording_of(text: str) -> Wording:
    """What a statement's text tells; "" where nobody knows it."""
    return _remembered(text) if len(text) <= _REMEMBERED else _read(text)


def _read(text: str) -> Wording:
    savepoint = not text or _OPENS_SAVEPOINT.search(text) is not None
    return Wording(_find_first_end(text), _find_later_end(text), _find_traces(text), savepoint)


_remembered = lru_cache(maxsize=512)(_read)


def _find_first_end(text: str) -> str | None:
    found = _ENDS_TRANSACTION.match(text, _first_word_at(text))
    return found.group(1).upper() if found else None


def _find_later_end(text: str) -> bool:
    at = text.find(";")
    while at >= 0:
        if _ENDS_TRANSACTION.match(text, _first_word_at(text, at)):
            return True
        at = text.find(";", at + 1)
    return False


def _first_word_at(text: str, at: int = 0) -> int:
    """Where a statement begins, behind blanks, semicolons and comments, which nest."""
    while True:
        blanks = _BLANKS.match(text, at)
        at = blanks.end() if blanks else at
        if not text.startswith("/*", at):
            return at
        depth = 0
        for mark in _COMMENT_MARK.finditer(text, at):
            depth += 1 if mark[0] == "/*" else -1
            if depth == 0:
                at = mark.end()
                break
        else:
            return len(text)


def _find_traces(text: str) -> bool:
    alone = ";" not in text.rstrip("; \t\r\n")
    on_rows = alone and _ON_ROWS.match(text, _first_word_at(text))
    return (_LEAVES_TRACES_ON_ROWS if on_rows else _LEAVES_TRACES).search(text) is not None
