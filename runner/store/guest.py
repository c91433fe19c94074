"""The guarded connection of workers, over one that a test has: the same session, its transaction too."""

import secrets
from typing import Any

import psycopg
from psycopg import sql

from .sending import Completion
from .sql import query
from .tx import Tx


class Guest(Tx):
    """A Tx that shares the session of another connection, its host, until it leaves.

    Where the host has a transaction open, the runner's BEGIN, COMMIT and ROLLBACK are those of a
    savepoint in it; otherwise they are real ones.
    """

    ours = False

    def __init__(self, host: psycopg.Connection[Any]) -> None:
        pgconn = host.pgconn
        self._hosts_handlers = (pgconn.notice_handler, pgconn.notify_handler)
        super().__init__(pgconn)
        self._prepared = host._prepared  # the names of prepared statements are the session's
        self._threshold = host.prepare_threshold
        self._autocommit = True
        self.traces = self.nested = self._unended = False

    def lend(self) -> None:
        """Hand the connection to a handler, in a transaction of its own or behind a savepoint."""
        self.nested = self.open
        if self.nested:
            self.marker = secrets.token_hex(8)  # it stands until the test's own transaction ends
            begin = query("nested_begin").format(marker=sql.Literal(self.marker))
            self.send(begin.as_bytes())
        self._unended = True
        super().lend()
        self.begun = self.nested

    def end(self, command: bytes) -> None:
        """End the handler's transaction with COMMIT or ROLLBACK, or what stands for them."""
        self._unended, self.before = False, ()
        if not self.nested or not self.open:
            super().end(command)
            return
        self.lent = False
        if command == b"COMMIT":
            self.send(query("nested_commit").as_bytes())
        else:
            self._undo()
        self._autocommit = True

    def _undo(self) -> None:
        try:
            self.send(query("nested_rollback").as_bytes())
        except psycopg.errors.InvalidSavepointSpecification:
            # The handler has ended the test's transaction, and begun one of its own.
            super().end(b"ROLLBACK")

    def finish(self, completion: Completion, *, chain: bool = False) -> None:
        """Only for transactions of our own: there is a COMMIT in it."""
        assert not self.nested
        self._unended = False
        super().finish(completion, chain=chain)

    def restore(self, *, thorough: bool = False) -> None:
        """Undo what the handler left on this object. The session is the test's: it stays as it is."""
        self.traces = False
        super().restore()
        self.prepare_threshold = self._threshold

    def leave(self) -> None:
        """Give the session back to its host, without a transaction that is not the host's."""
        pgconn = self.pgconn
        if self._unended and not self.closed:
            self.end(b"ROLLBACK")
        pgconn.notice_handler, pgconn.notify_handler = self._hosts_handlers
        del self.pgconn  # whoever kept this object cannot use it, and it warns of nothing


def make_due_ready(conn: psycopg.Connection[Any]) -> None:
    """Promote, without the lock of the passes: in a test's transaction it would be held to the end."""
    while conn.execute(query("promote"), {"failed_before": None}).rowcount:
        pass
