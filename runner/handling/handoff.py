"""A batch of claimed rows, begun one after the other by whoever reads its token first.

Tokens lie in a pipe that the worker and the parent both read. While the worker is held up by one task,
the parent reads what is left and has it given back; whoever reads a token has the task, and the kernel
sees to it that only one does.
"""

import os
from collections.abc import Sequence

from ..store.claim import Row
from ..wire import MOST_TOKENS, TOKEN_SIZE, Token, pack_tokens, task_of, unpack_tokens


def together(rows: Sequence[Row]) -> tuple[Sequence[Row], Sequence[Row]]:
    """The rows of a batch to run, and those to give back first.

    One found by a sweep runs alone, so that the next time it is known to have begun.
    """
    alone = next((row for row in rows if row.solo), None)
    if alone is None:
        return rows, ()
    return [alone], [row for row in rows if row is not alone]


class Handoff:
    """The worker's side: the pipe, and the rows whose tokens are in it."""

    def __init__(self, read: int, write: int) -> None:
        self._read = read
        self._write = write
        self._rows: dict[int, Row] = {}
        os.set_blocking(read, False)

    def put(self, rows: Sequence[Row]) -> None:
        """Lay out tokens for these rows; at most MOST_TOKENS at once, so that they are one write."""
        assert len(rows) <= MOST_TOKENS
        self._rows = {row.task_id: row for row in rows}
        if rows:
            os.write(self._write, pack_tokens(Token(row.task_id, row.fence) for row in rows))

    def next(self) -> Row | None:
        """The next row that is still ours to begin; None when none is left."""
        if not self._rows:
            return None
        try:
            data = os.read(self._read, TOKEN_SIZE)
        except BlockingIOError:
            self._rows.clear()  # the parent has read the rest
            return None
        return self._rows.pop(task_of(data))

    def take_all(self) -> list[Token]:
        """Every token that is left, to be given back."""
        self._rows.clear()
        try:
            return unpack_tokens(os.read(self._read, MOST_TOKENS * TOKEN_SIZE))
        except BlockingIOError:
            return []
