"""Taking what the parent has counted into the database."""

import socket
from collections.abc import Iterator

import psycopg

from ..store import tallies
from ..tally import Tally, number_of, unpack_tally
from ..typenames import TypeNames

LARGEST = 4096


class Tallying:
    """The reading end of the parent's counts, with those that are not written yet."""

    def __init__(self, fd: int, names: TypeNames) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(False)
        self.fd = fd
        self._file = names
        self._names: dict[int, str] = {}
        self.waiting: dict[str, Tally] = {}

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

    def write(self, conn: psycopg.Connection[object]) -> None:
        """Add it to the table; what could not be written stays for the next time."""
        if self.waiting:
            tallies.add(conn, self.waiting)
            self.waiting.clear()
