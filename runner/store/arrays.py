"""Arrays as PostgreSQL reads them, for statements that are sent at every claim.

psycopg's dumper for lists looks at the type of each element, which costs more than the claim's own
work. The statement casts what it is given.
"""

from collections.abc import Iterable


def numbers(values: Iterable[float]) -> str:
    """An array of numbers, infinite ones too."""
    return "{" + ",".join(map(repr, values)) + "}"


def texts(values: Iterable[str]) -> str:
    """An array of texts, whatever is in them."""
    return "{" + ",".join(map(_quoted, values)) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
