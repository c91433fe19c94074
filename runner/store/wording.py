"""What the wording of a handler's statement tells: that it ends the transaction, or leaves traces."""

import re
from functools import lru_cache

_BLANKS = re.compile(r"(?:\s|;|--[^\r\n]*)*+")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_ENDS_TRANSACTION = re.compile(
    r"(commit|end|rollback(?!\s+(?:work\s+|transaction\s+)?to\b)|abort|prepare\s+transaction)\b",
    re.IGNORECASE,
)
_LEAVES_TRACES = re.compile(
    r"\b(set|reset|listen|temp|temporary|pg_temp|declare|set_config|pg_(try_)?advisory_lock\w*"
    r"|load|do|prepare|deallocate|discard)\b",
    re.IGNORECASE,
)
# In these SET and DO are parts of the statement, as in `update … set` and `on conflict do nothing`.
_ON_ROWS = re.compile(r"(select|insert|update|delete|merge|with|values)\b", re.IGNORECASE)
_LEAVES_TRACES_ON_ROWS = re.compile(
    r"\b(temp|temporary|pg_temp|set_config|pg_(try_)?advisory_lock\w*)\b", re.IGNORECASE
)
_OPENS_SAVEPOINT = re.compile(r"\bsavepoint\b", re.IGNORECASE)
_REMEMBERED = 2000  # characters of a statement that is worth a place in a cache


def ends_transaction(text: str) -> str | None:
    """The word with which a statement would end the transaction, None if it does not begin so."""
    return _ends_transaction(text) if len(text) <= _REMEMBERED else _judge_end(text)


def _judge_end(text: str) -> str | None:
    found = _ENDS_TRANSACTION.match(text, _first_word_at(text))
    return found.group(1).upper() if found else None


_ends_transaction = lru_cache(maxsize=512)(_judge_end)


def may_end_later(text: str) -> bool:
    """Whether an end of the transaction may stand behind another statement of the same string.

    It may stand in a literal or a function's body as well: only the server can tell.
    """
    return ";" in text and (_ends_later(text) if len(text) <= _REMEMBERED else _find_end(text))


def _find_end(text: str) -> bool:
    at = text.find(";")
    while at >= 0:
        if _ENDS_TRANSACTION.match(text, _first_word_at(text, at)):
            return True
        at = text.find(";", at + 1)
    return False


_ends_later = lru_cache(maxsize=512)(_find_end)


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


def leaves_traces(text: str) -> bool:
    """Whether a statement may leave something in the session that outlives its transaction."""
    return _leaves_traces(text) if len(text) <= _REMEMBERED else _find_traces(text)


def _find_traces(text: str) -> bool:
    alone = ";" not in text.rstrip("; \t\r\n")
    on_rows = alone and _ON_ROWS.match(text, _first_word_at(text))
    return (_LEAVES_TRACES_ON_ROWS if on_rows else _LEAVES_TRACES).search(text) is not None


_leaves_traces = lru_cache(maxsize=512)(_find_traces)


def opens_savepoint(text: str) -> bool:
    """Whether a statement may open a savepoint; one whose text nobody knows may."""
    if not text or len(text) > _REMEMBERED:
        return not text or _OPENS_SAVEPOINT.search(text) is not None
    return _opens_savepoint(text)


@lru_cache(maxsize=512)
def _opens_savepoint(text: str) -> bool:
    return _OPENS_SAVEPOINT.search(text) is not None
