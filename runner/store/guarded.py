"""What a handler may do with the connection that it is lent, and what it is refused.

The transaction begins with the handler's first statement and is ended by the runner, with the task's
deletion in it. So every way in which psycopg ends one, or lets a handler end one, is closed while it is
lent. What gets round all of that, by whatever spelling, is found out by the marker of the transaction
(`Tx`).
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg import Pipeline
from psycopg.abc import PQGen, Query
from psycopg.adapt import AdaptersMap

from ..errors import TransactionMisuse
from .doubting import Doubting
from .wording import wording_of

_RV = TypeVar("_RV")
# What is prepared is not there, or gives other columns by now: those of a table were changed.
NOT_AS_PREPARED = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.FeatureNotSupported)


class Guarded(Doubting):
    """A connection that is a handler's while it is `lent`, and ours otherwise."""

    begun = False  # a transaction was begun since the connection was lent
    one_statement_only = False  # of the statement that is being sent
    makes_cursor = False  # of a class of ours
    adapted = False  # a handler has had the adapters in hand
    nests = False  # the handler may have opened savepoints of its own
    _known = False  # the text of the statement that is being sent was looked at
    _elders: frozenset[threading.Thread] = frozenset()  # left behind by handlers before this one

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._owner = threading.get_ident()

    @property
    def is_between_transactions(self) -> bool:
        """A transaction that was begun ahead makes way for a statement of ours."""
        return not self.lent and (self.ahead or super().is_between_transactions)

    @property
    def info(self) -> psycopg.ConnectionInfo:
        """psycopg's, of a connection on which nothing is under way."""
        self._answer_owner()
        return super().info

    @property
    def adapters(self) -> AdaptersMap:
        """psycopg's. A cursor asks for it when it is made; one of psycopg's own classes looks at the
        connection's state before it sends anything."""
        if not self.makes_cursor:
            self.adapted = True  # perhaps: it has them in hand
            self._answer_owner()
        return super().adapters

    def _answer_owner(self) -> None:
        if self.unanswered and self.lent and threading.current_thread() not in self._elders:
            with suppress(psycopg.Error):  # that it is lost shows in its state
                self.answer()

    def look_at(self, statement: Query) -> None:
        """Refuse a statement that ends the transaction; note one that leaves traces."""
        text = statement if isinstance(statement, str) else _text_of(statement, self)
        wording = wording_of(text)
        if wording.ends:
            _refuse(wording.ends)
        self.one_statement_only = wording.may_end_later
        self.traces = self.traces or wording.leaves_traces
        self.nests = self.nests or wording.opens_savepoint
        self._known = True

    def _start_query(self) -> PQGen[None]:
        if self.lent and not self._known:  # through a cursor of a class that is not ours
            self.nests = self.traces = True
        self._known = False
        if self.goes_before and not (self.takes_along and self.lent):
            yield from self.sent_before()
        if self.ahead:
            # Who takes the COMMIT along was not late when it was asked, and is not asked again.
            late, self.ahead = self.stale and not self.takes_along, False
            if self.lent and not late:
                self.begun = True
                return
            yield from self._sent(b"rollback")
        if self.open:
            return
        if self._autocommit:
            yield from self._bounded()  # it is one of ours
            return
        if self.begun:
            # Begun again, it would pass for the one that the handler has ended, effect and all.
            _refuse("ending the transaction")
        self.begun = True
        yield from self._begun(super()._get_tx_start_command())

    def _exec_command(self, command: Any, *args: Any, **kwargs: Any) -> PQGen[Any]:
        # psycopg's own: the savepoints of its blocks, and what server cursors do once they are declared.
        if self.lent:
            self.nests = True
            if self.goes_before:
                yield from self.sent_before()
        return (yield from super()._exec_command(command, *args, **kwargs))

    def wait(self, gen: PQGen[_RV], *args: Any, **kwargs: Any) -> _RV:
        """psycopg's, closed to threads that outlived the handler that started them."""
        if threading.get_ident() != self._owner and (
            not self.lent or threading.current_thread() in self._elders
        ):
            raise TransactionMisuse("the handler is over, and with it this transaction")
        try:
            return super().wait(gen, *args, **kwargs)
        except psycopg.errors.SyntaxError as error:
            if self.lent and self.one_statement_only and "multiple commands" in str(error):
                _refuse("an end of the transaction behind another statement")
            raise
        except NOT_AS_PREPARED:
            self.doubts = True
            raise

    def _get_tx_start_command(self) -> bytes:
        # Asked for by psycopg.Transaction as the outermost block: it would commit without the task.
        if self.lent:
            _refuse("psycopg.Transaction(tx) instead of tx.transaction()")
        return super()._get_tx_start_command()

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        """A savepoint while lent: as the outermost block it would commit without the task."""
        if self.lent:
            self.nests = True
            self._begin()
        else:
            self.drop_ahead()
        with super().transaction(savepoint_name, force_rollback) as block:
            yield block

    @contextmanager
    def pipeline(self) -> Iterator[Pipeline]:
        """psycopg's, begun inside the transaction."""
        if self.lent:
            self._begin()
        with super().pipeline() as pipeline:
            yield pipeline

    @contextmanager
    def _pipeline_nolock(self) -> Iterator[Pipeline]:
        # executemany's own, inside of which no transaction can be begun as we do it.
        if self.lent:
            self._begin()
        with super()._pipeline_nolock() as pipeline:
            yield pipeline

    def _begin(self) -> None:
        with self.lock:
            self._known = True  # nothing of the handler's is sent
            self.wait(self._start_query())

    def _check_intrans_gen(self, attribute: str) -> PQGen[None]:
        # A handler sets its isolation level before its first statement: begin anew for that.
        if self.unanswered:
            yield from self.sent_before()
        if self.ahead:
            self.ahead = False
            yield from self._sent(b"rollback")
        yield from super()._check_intrans_gen(attribute)

    def commit(self) -> None:
        """Refused while lent."""
        if self.lent:
            _refuse("commit()")
        super().commit()

    def rollback(self) -> None:
        """Refused while lent."""
        if self.lent:
            _refuse("rollback()")
        super().rollback()

    def close(self) -> None:
        """Refused while lent."""
        if self.lent:
            _refuse("close()")
        super().close()

    def set_autocommit(self, value: bool) -> None:
        """Refused while lent."""
        if self.lent:
            _refuse("autocommit")
        super().set_autocommit(value)

    def _set_autocommit(self, value: bool) -> None:
        if self.lent:
            _refuse("autocommit")
        super()._set_autocommit(value)


def _text_of(statement: Query, connection: psycopg.Connection[Any]) -> str:
    if isinstance(statement, bytes):
        return statement.decode("utf-8", "replace")
    try:
        return statement.as_string(connection)  # type: ignore[union-attr]
    except Exception:  # a template string, or one that will not compose: the server judges it
        return ""


def _refuse(what: str) -> NoReturn:
    raise TransactionMisuse(
        f"{what} in a handler: the runner ends this transaction, with the task's deletion in it"
    )
