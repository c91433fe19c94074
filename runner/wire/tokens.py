"""Tokens: claimed tasks that have not begun, in a worker's hand-off pipe."""

import struct
from collections.abc import Iterable
from typing import NamedTuple


class Token(NamedTuple):
    """A claimed task that has not begun. Whoever reads it from the hand-off pipe has the task."""

    task_id: int
    fence: int


_TOKEN = struct.Struct("<qq")
TOKEN_SIZE = _TOKEN.size
MOST_TOKENS = 4096 // TOKEN_SIZE  # more would not be written in one piece


def pack_tokens(tokens: Iterable[Token]) -> bytes:
    """Their records, one behind the other; whole as long as there are at most MOST_TOKENS."""
    return b"".join(_TOKEN.pack(*token) for token in tokens)


def task_of(data: bytes) -> int:
    """The task of the token that `data` is."""
    task_id: int = _TOKEN.unpack(data)[0]
    return task_id


def unpack_tokens(data: bytes) -> list[Token]:
    """The tokens in `data`; each is read whole, because every reader reads whole ones."""
    return [Token(*one) for one in _TOKEN.iter_unpack(data)]
