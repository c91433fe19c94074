"""Taking what the parent has counted into the database."""

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import psycopg

from ..clock import now
from ..logpipe import LogPipe
from ..store import tallies
from ..store.connect import tells_of_server
from ..tally import Tally, number_of, unpack_tally
from ..text import error_text
from ..typenames import TypeNames

LARGEST = 4096
FOLD_SECONDS = 60.0
Connecting = AbstractContextManager[psycopg.Connection[Any]]


class Tallying:
    """The reading end of the parent's counts, with those that are not written yet."""

    def __init__(self, fd: int, names: TypeNames) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(False)
        self.fd = fd
        self._file = names
        self._names: dict[int, str] = {}
        self.waiting: dict[str, Tally] = {}
        self._fold_at = 0.0
        self._trouble = ""

    def take(self) -> None:
        """Read what there is. A type that nobody has named is not counted: it has no handler."""
        for tally in self._received():
            if tally.type not in self._names:
                self._names.update((number_of(name), name) for name in self._file.read() or ())
            name = self._names.get(tally.type)
            if name is not None:
                before = self.waiting.get(name)
                self.waiting[name] = tally if before is None else before + tally

    def _received(self) -> Iterator[Tally]:
        while True:
            try:
                data = self._socket.recv(LARGEST)
            except BlockingIOError:
                return
            if not data:
                return
            yield unpack_tally(data)

    def keep(self, connection: Callable[[], Connecting], log: LogPipe) -> None:
        """Write what there is, and fold what is old. A database that refuses it, as one where the login
        has not got its rights anew, is told of once: nothing else must wait for counts."""
        self.take()
        at = now()
        if not self.waiting and at < self._fold_at:
            return
        try:
            with connection() as conn:
                self.write(conn)
                if at >= self._fold_at:
                    tallies.fold(conn)
                    self._fold_at = at + FOLD_SECONDS
            self._trouble = ""
        except psycopg.Error as error:
            if tells_of_server(error):
                raise
            self._fold_at = at + FOLD_SECONDS
            if (why := error_text(error)) != self._trouble:
                self._trouble = why
                log.warning("counts_failed", f"counts cannot be written: {why}")

    def write(self, conn: psycopg.Connection[Any]) -> None:
        """Add it to the table; what could not be written stays for the next time."""
        if self.waiting:
            tallies.add(conn, self.waiting)
            self.waiting.clear()
