"""What goes before a handler's first statement, best along with it: the savepoint of its group, or the
COMMIT of the task before it, which is sent at once and whose answer is not waited for."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import generators, pq
from psycopg.abc import PQGen

from ..clock import now
from .sending import CHAIN, COMPLETE, MARK, PLAIN, Completion, Sending

_RV = TypeVar("_RV")
CANCELED = b"57014"
STALE_SECONDS = 0.05  # the now() of a transaction that was begun so long ago is not the handler's
COMMITTED = (
    2  # commands of a completion: what is behind the deletion and the COMMIT is the next one's
)


class NotRead(psycopg.OperationalError):
    """What became of a completion nobody knows yet."""


NOT_READ = NotRead("the answer to a COMMIT was not read")


class Ahead(Sending):
    """A connection that knows what is to go before the next statement."""

    lent = False  # to a handler
    ahead = False  # a transaction is open that nobody has used yet
    ahead_at = 0.0  # the local time at which it was begun
    before: Sequence[bytes] = ()  # what is to be sent before the next statement
    unsent: psycopg.Error | None = None  # what failed of it
    unanswered = 0  # commands of a completion that was sent
    late: psycopg.Error | None = None  # what failed of those: nothing of that task is committed
    takes_along = False  # the statement that is being sent can take along what goes before it
    cut_short = False  # what interrupted a handler struck while the task before was waited for
    _hearing = False  # what was sent is being answered, or what follows from the answer done
    _canceled = False  # meanwhile, by psycopg, because of an exception from a signal
    _taker: Generator[Any, Any, Any] | None = None  # what may run while something is unanswered

    @property
    def goes_before(self) -> bool:
        """Whether anything does."""
        return bool(self.before) or self.unanswered > 0

    @property
    def stale(self) -> bool:
        """Whether that has been open for too long to be a handler's that has not begun to use it."""
        return self.ahead and now() - self.ahead_at > STALE_SECONDS

    @property
    def _is_at_rest(self) -> bool:
        return super()._is_at_rest and not (self.ahead or self.goes_before)

    @property
    def open(self) -> bool:
        """Whether a transaction is open, be it broken or not."""
        return self.pgconn.transaction_status != pq.TransactionStatus.IDLE

    def drop_ahead(self) -> None:
        """End a transaction that was begun ahead and is not wanted."""
        if self.ahead:
            self.ahead = False
            self.send(b"rollback")

    def taking_along(self, gen: PQGen[None]) -> PQGen[None]:
        """What sends a statement, and can take along what goes before it."""
        self._taker = gen
        return gen

    def send_completion_ahead(self, completion: Completion) -> None:
        """Complete and commit, and begin the next transaction; the answer is that of the next statement,
        or of `answer`."""
        pgconn = self.pgconn
        with self.lock:
            if MARK not in self.our_prepared:
                self._prepare_completion()
            self._enter_pipeline_mode()
            pgconn.send_query_prepared(COMPLETE, completion.values)
            if self.plain:  # the next one is of the same kind
                pgconn.send_query_prepared(CHAIN, None)
            else:
                self._put([b"commit", PLAIN])
            pgconn.send_query_prepared(MARK, None)
            self.unanswered = 3 if self.plain else 4
            pgconn.flush()  # what a socket does not hold goes with what is sent next
        self.free = self.plain = self.ahead = True
        self.ahead_at = now()

    def _try_cancel(self, **kwargs: Any) -> None:
        # psycopg's, when a signal ends its waiting; after it, it waits for what is still to come.
        self._canceled = True
        super()._try_cancel(**kwargs)

    def wait(self, gen: PQGen[_RV], *args: Any, **kwargs: Any) -> _RV:
        """psycopg's, for which everything is answered before, unless `gen` takes it along itself.

        Where an exception from outside, like one of a signal of the handler's own, leaves answers
        behind in pipeline mode, or no transaction where one is to be begun anew, the connection is
        closed: what is sent next would take the answers to others for its own, or be committed alone.
        """
        if self.unanswered and gen is not self._taker:
            self._answer()
        self.takes_along = gen is self._taker
        try:
            return super().wait(gen, *args, **kwargs)
        except BaseException:
            if self._hearing or (self._piping and not self.unanswered):
                self.pgconn.finish()
            raise

    def answer(self) -> None:
        """Wait for what is unanswered; what failed of it is `late`."""
        with self.lock:
            self._answer()

    def _answer(self) -> None:
        if self.unanswered:
            self._taker = gen = self._answered(None)
            self.wait(gen)

    def _call(self, function: Callable[..., pq.abc.PGresult], *args: bytes) -> None:
        self._answer()
        super()._call(function, *args)

    def sent_before(self, send: Callable[[], None] | None = None) -> PQGen[list[pq.abc.PGresult]]:
        """Send what is to go before the next statement, and, where that is given, the statement with
        it; the statement's results. Once it has failed nothing passes but an end of the transaction."""
        return self._answered(send) if self.unanswered else self._sent_ahead(send)

    def _sent_ahead(self, send: Callable[[], None] | None) -> PQGen[list[pq.abc.PGresult]]:
        before, self.before = self.before, ()
        try:
            if send is not None:
                return (yield from self._sent_behind(before, send))
            if before:
                yield from self._sent(b"; ".join(before))
        except psycopg.Error as error:
            self.unsent = error
            raise
        return []

    def _answered(self, send: Callable[[], None] | None) -> PQGen[list[pq.abc.PGresult]]:
        """Hear what has become of the completion that was sent. When it has failed, that is the affair
        of the task before: this one's transaction is begun anew, and its statement sent again."""
        self.late = NOT_READ  # until it is
        self._hearing, self._canceled = True, False
        count, self.unanswered = self.unanswered, 0
        try:
            failed, results = yield from self._answers(count, send)
        finally:
            self._leave_pipeline_mode()
        self.late = failed.error if failed is not None and failed.place < COMMITTED else None
        if failed is not None:
            results = []  # the statement was passed over
            self.traces = True  # as in `send_completion`
            yield from self._begun_anew()
        self._hearing = False
        # A COMMIT that waits for a standby succeeds, canceled or not.
        self.cut_short = self._canceled and not any(
            result.error_field(pq.DiagnosticField.SQLSTATE) == CANCELED for result in results
        )
        if self.cut_short and self.lent and not results:
            raise psycopg.errors.QueryCanceled("what was waited for was canceled")
        if failed is None or send is None or not self.lent:
            return results
        send()
        again: list[pq.abc.PGresult] = yield from generators.execute(self.pgconn)
        return again

    def _begun_anew(self) -> PQGen[None]:
        if self.open:
            yield from self._sent(b"rollback")
        if self.lent:
            yield from self._sent(b"; ".join([PLAIN, self._mark]))
        else:
            self.ahead = False
