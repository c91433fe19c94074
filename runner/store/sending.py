"""Sending statements of ours as cheaply as libpq can, past psycopg's cursors.

Our own statements are bounded by the timeouts in the startup options; a handler's statements and pauses
are bounded by its own time limit instead. Where the session is ours, the timeouts are off from the first
handler of a batch that uses the connection until our next statement; otherwise by SET LOCAL.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import psycopg
from psycopg import generators, pq
from psycopg.abc import PQGen

from .bounded import GOOD, Bounded
from .sql import query

TEXT = query("complete_and_commit").as_string()
PREPARED = query("complete_prepared").as_string()

# Left to itself the server plans each claim anew, which takes longer than the claim. For handlers it is
# left to itself.
SETTINGS = {"plan_cache_mode": "force_generic_plan"}


_T = TypeVar("_T")


def _commands(name: str) -> list[bytes]:
    return [each.strip().encode() for each in query(name).as_string().split(";")]


FREE, FREE_LOCALLY, BOUND = (_commands(name) for name in ("free", "free_locally", "bound"))
(MARK_TEXT,), (CHAIN_TEXT,) = _commands("mark_transaction"), _commands("commit_and_chain")
COMPLETE_TEXT = query("complete_or_raise").as_bytes()
OPEN_MEMBER, KEEP_MEMBERS, UNDO_MEMBER = (
    _commands(name)[0] for name in ("open_member", "keep_members", "undo_member")
)
PLAIN = b"BEGIN"  # psycopg's
SYNC = pq.ExecStatus.PIPELINE_SYNC
# Names of what a session has prepared of ours.
COMPLETE, CHAIN, MARK = b"runner_complete", b"runner_chain", b"runner_mark"
CLAIM, CLEARING_CLAIM = CLAIMS = b"runner_claim", b"runner_clearing_claim"  # a reset spares them


class Completion(NamedTuple):
    """The deletion of a task by its claim, with the COMMIT behind it."""

    task_id: int
    worker_id: str
    fence: int
    marker: str
    ctid: str

    @property
    def text(self) -> bytes:
        """As one string. Numbers, a UUID and a marker of ours: nothing in it needs quoting."""
        return (TEXT % self[:-1]).encode()

    @property
    def prepared(self) -> bytes:
        """The deletion alone, as what the session has prepared."""
        return (PREPARED % self).encode()

    @property
    def values(self) -> list[bytes]:
        """What the prepared one is given."""
        return list(map(str.encode, map(str, self)))


class Failed(NamedTuple):
    """The first of several commands that failed: its place among them, and why."""

    place: int
    error: psycopg.Error


class Sending(Bounded):
    """A connection that sends strings, and rows of prepared statements, in one round trip each."""

    marker = ""  # in each transaction that we begin for a handler: nobody else has it
    traces = True  # something may be left in the session that a reset must undo
    free = False  # the session's timeouts are off
    plain = True  # the open transaction was begun without wishes of the handler's
    _piping = False  # in libpq's pipeline mode, by hand

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.our_prepared: set[bytes] = set()  # of ours, by name

    def send(self, text: bytes) -> None:
        """Send a string of statements; the first error in it is raised."""
        with self.lock:
            self._send(text)

    def _send(self, text: bytes) -> None:
        self._call(self.pgconn.exec_, text)

    def _call(self, function: Callable[..., pq.abc.PGresult], *args: bytes) -> None:
        # One call of libpq, which waits by itself: none of the handler's code runs, so there is nothing
        # that a signal could end, and psycopg's generators cost more than the call. It would first wait
        # for a statement that a handler broke off, and pass over what came of that.
        if self.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
            raise psycopg.OperationalError("another statement is still under way")
        result = function(*args)
        if result.status in GOOD:
            return
        if result.error_field(pq.DiagnosticField.SQLSTATE) is None:
            # An error of libpq's own: it could not write or read, and may not have read so far that it
            # knows the connection to be lost.
            self.pgconn.finish()
            raise psycopg.OperationalError(result.get_error_message())
        raise psycopg.errors.error_from_result(result)

    @property
    def _mark(self) -> bytes:
        return MARK_TEXT % self.marker.encode()

    def _begun(self, begin: bytes) -> PQGen[None]:
        """Begin a handler's transaction, free of our timeouts and marked, in one round trip."""
        mark = self._mark
        self.plain = begin == PLAIN
        if not self.ours:
            yield from self._sent(b"; ".join([begin, *self.durable, *FREE_LOCALLY, mark]))
        elif self.free:
            yield from self._sent(b"; ".join([begin, mark]))
        else:
            # The settings are committed by themselves: the handler's ROLLBACK must not take them back.
            yield from self._sent(b"; ".join([begin, *FREE, CHAIN_TEXT, mark]))
            self.free = True

    def _bounded(self) -> PQGen[None]:
        """Our timeouts hold again."""
        if self.free:
            yield from self._sent(b"; ".join(BOUND))
            self.free = False

    def send_completion(self, completion: Completion) -> None:
        """Complete and commit as one string, with nothing behind that: what fails there would pass for
        the task's own. Where it fails, what is prepared may be to blame, and would be at each task: a
        reset is due, and all is prepared anew."""
        with self.lock:
            if MARK not in self.our_prepared:
                self._prepare_completion()
            self.traces = True  # until it is through
            self._send(completion.prepared + b"; commit")
        self.traces, self.plain = False, True

    def _prepare_completion(self) -> None:
        # Where one fails, those before it are there, and their names are taken.
        self.traces = True
        for name, text in ((COMPLETE, COMPLETE_TEXT), (CHAIN, CHAIN_TEXT), (MARK, self._mark)):
            self._prepare(name, text)
        self.traces = False

    def _prepare(self, name: bytes, text: bytes) -> None:
        # By itself: it is there whatever becomes of what is sent with it.
        self._call(self.pgconn.prepare, name, text)
        self.our_prepared.add(name)

    def ask(
        self,
        name: bytes,
        text: bytes,
        values: Sequence[bytes | None],
        *,
        sent: Callable[[], None],
        read: Callable[[pq.abc.PGresult], _T],
    ) -> _T:
        """What `read` makes of the rows of a statement, which is committed when this returns.

        The statement is prepared under its name. `sent` is called while the server is at it, and `read`
        while it waits for its disk: the rows come before the COMMIT is through.
        """
        pgconn = self.pgconn
        with self.lock:
            if not self._is_at_rest:
                self.wait(self._start_query())
            if name not in self.our_prepared:
                self._prepare(name, text)
            self._enter_pipeline_mode()
            try:
                pgconn.send_query_prepared(name, values)
                pgconn.send_flush_request()
                pgconn.pipeline_sync()
                sent()
                results, found = self.wait(self._received(read))
            finally:
                self._leave_pipeline_mode()
        for result in results:
            if result.status not in (*GOOD, SYNC):
                raise psycopg.errors.error_from_result(result)
        return cast(_T, found)

    @property
    def _is_at_rest(self) -> bool:
        """Whether nothing of `_start_query` is to be done before a statement of ours."""
        return self.is_between_transactions and not self.free

    def _received(
        self, read: Callable[[pq.abc.PGresult], _T]
    ) -> PQGen[tuple[list[pq.abc.PGresult], _T | None]]:
        pgconn = self.pgconn
        if pgconn.flush():  # it is larger than what a socket holds
            yield from generators.send(pgconn)
        results = yield from generators.fetch_many(pgconn)
        found = read(results[0]) if results[0].status in GOOD else None
        while results[-1].status != SYNC:
            results += yield from generators.fetch_many(pgconn)
        return results, found

    def _sent_behind(
        self, commands: Sequence[bytes], send: Callable[[], None]
    ) -> PQGen[list[pq.abc.PGresult]]:
        """Send these and, behind them, what `send` does; its results. The first failure of these is
        raised, and nothing behind it was executed."""
        self._enter_pipeline_mode()
        try:
            self._put(commands)
            failed, results = yield from self._answers(len(commands), send)
        finally:
            self._leave_pipeline_mode()
        if failed is not None:
            raise failed.error
        return results

    def _put(self, commands: Sequence[bytes]) -> None:
        for command in commands:
            self.pgconn.send_query_params(command, None)

    def _answers(
        self, count: int, send: Callable[[], None] | None
    ) -> PQGen[tuple[Failed | None, list[pq.abc.PGresult]]]:
        """Send what `send` does behind so many commands that were put; the first of these that failed,
        behind which nothing was executed, and the results of what `send` has sent."""
        pgconn, failed = self.pgconn, None
        results: list[pq.abc.PGresult] = []
        if send is not None:
            send()
        pgconn.pipeline_sync()
        yield from generators.send(pgconn)  # it may be larger than what a socket holds
        for place in range(count):
            (result,) = yield from generators.fetch_many(pgconn)
            if failed is None and result.status not in GOOD:
                failed = Failed(place, psycopg.errors.error_from_result(result))
        while (found := (yield from generators.fetch_many(pgconn)))[0].status != SYNC:
            results += found
        return failed, results

    def _enter_pipeline_mode(self) -> None:
        self._piping = True
        self.pgconn.enter_pipeline_mode()

    def _leave_pipeline_mode(self) -> None:
        if self.pgconn.status != pq.ConnStatus.OK:
            return
        try:
            self.pgconn.exit_pipeline_mode()
            self._piping = False
        except psycopg.OperationalError:
            pass  # answers are outstanding: see `Ahead.wait`

    def _deallocate(self, name: bytes | None) -> PQGen[None]:
        # psycopg drops ALL that the session has prepared, ours too, behind any rollback to a savepoint.
        if name is not None:
            yield from super()._deallocate(name)
            return
        before, self.traces = self.traces, True  # until it is done
        self.our_prepared.clear()
        yield from super()._deallocate(name)
        # In a pipeline it is only put, and may be passed over.
        self.traces = before or self._pipeline is not None
