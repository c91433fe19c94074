"""Sending statements of ours as cheaply as libpq can, past psycopg's cursors."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg import generators, pq
from psycopg.abc import PQGen

from .sql import query

GOOD = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)
TEXT = query("complete_and_commit").as_string()

# What completions are made of, by the name under which a session prepares it.
PREPARED = {
    name: query(name.decode()).as_string().rstrip().rstrip(";").encode()
    for name in (b"runner_complete", b"runner_commit", b"runner_begin", b"runner_mark")
}

Command = tuple[bytes, Sequence[bytes]]  # the name of a prepared statement, and its parameters


class Completion(NamedTuple):
    """The deletion of a task by its claim, with the COMMIT behind it."""

    worker_id: UUID
    task_id: int
    fence: int
    marker: str

    @property
    def text(self) -> bytes:
        """As one string. Numbers, a UUID and a marker of ours: nothing in it needs quoting."""
        return (TEXT % (self.task_id, self.worker_id, self.fence, self.marker)).encode()

    def commands(self, following: str | None) -> list[Command]:
        """As prepared statements; with those that begin the transaction of the claim that follows."""
        task, fence = b"%d" % self.task_id, b"%d" % self.fence
        values = (task, str(self.worker_id).encode(), fence, self.marker.encode())
        commands: list[Command] = [(b"runner_complete", values), (b"runner_commit", ())]
        if following is not None:
            commands += [(b"runner_begin", ()), (b"runner_mark", (following.encode(),))]
        return commands


class Sending(psycopg.Connection[Any]):
    """A connection that sends strings, and rows of prepared statements, in one round trip each."""

    has_prepared = False  # the session has what PREPARED says

    def send(self, text: bytes) -> None:
        """Send a string of statements; the first error in it is raised."""
        with self.lock:
            self.wait(self._sent(text))

    def _sent(self, text: bytes) -> PQGen[None]:
        self.pgconn.send_query(text)
        for result in (yield from generators.execute(self.pgconn)):
            if result.status not in GOOD:
                raise psycopg.errors.error_from_result(result)

    def send_prepared(self, commands: Sequence[Command]) -> None:
        """Send these one behind the other; behind one that fails none is executed, and it is raised.

        libpq's pipeline mode by hand: no parsing and planning in the server, and none of the round
        trips and Python of psycopg's own.
        """
        with self.lock:
            self.wait(self._sent_prepared(commands))

    def _sent_prepared(self, commands: Sequence[Command]) -> PQGen[None]:
        pgconn = self.pgconn
        pgconn.enter_pipeline_mode()
        try:
            if not self.has_prepared:
                for name, text in PREPARED.items():
                    pgconn.send_prepare(name, text)
            for name, values in commands:
                pgconn.send_query_prepared(name, values)
            pgconn.pipeline_sync()
            failed = yield from self._first_failure()
        finally:
            if pgconn.status == pq.ConnStatus.OK:
                pgconn.exit_pipeline_mode()
        if failed is not None:
            raise psycopg.errors.error_from_result(failed)
        self.has_prepared = True

    def _first_failure(self) -> PQGen[pq.abc.PGresult | None]:
        """Read all there is to the end; the first result that is none."""
        failed = None
        while True:
            result = yield from generators.fetch(self.pgconn)
            if result is None:
                continue
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                return failed
            if result.status not in GOOD and failed is None:
                failed = result
