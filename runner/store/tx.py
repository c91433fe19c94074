"""The connection that a worker claims with and hands to handlers, guarded while it is lent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg import Pipeline, pq
from psycopg.abc import PQGen, Query
from psycopg.rows import tuple_row

from ..errors import TransactionMisuse
from .bounded import InTransaction
from .connect import ensure_durable
from .sending import Completion, Sending
from .sql import query
from .wording import ends_transaction, leaves_traces, may_end_later

_RV = TypeVar("_RV")

SAVEPOINT = b"runner_task"


class _Guard:
    """What our cursors add to psycopg's: a look at each statement before it is sent."""

    def _start_query(self, query: Query | None = None) -> PQGen[None]:
        connection: Any = self._conn  # type: ignore[attr-defined]
        if query is not None and connection.lent:
            connection.look_at(query)
        return super()._start_query(query)  # type: ignore[misc,no-any-return]

    def _execute_send(self, query: Any, *, force_extended: bool = False, **kwargs: Any) -> None:
        # The extended protocol takes one statement a string: the server refuses an end behind another
        # statement before it has run any of them.
        connection: Any = self._conn  # type: ignore[attr-defined]
        alone = force_extended or (connection.lent and connection.one_statement_only)
        super()._execute_send(query, force_extended=alone, **kwargs)  # type: ignore[misc]


class Cursor(_Guard, psycopg.Cursor[Any]):
    """A handler's cursor."""


class PooledCursor(InTransaction, Cursor):
    """A handler's cursor, and the runner's own, behind a pooler."""


class ServerCursor(_Guard, psycopg.ServerCursor[Any]):
    """A handler's named cursor."""


class Tx(Sending):
    """A psycopg connection whose transaction is the runner's.

    While it is lent to a handler, the transaction begins with the handler's first statement, blocks of
    `transaction()` are savepoints, and commit, rollback and close are refused: the task is deleted in
    this transaction, so only the runner ends it. A thread that a handler left behind may not use it any
    more, neither between loans nor in the next one: it would write into somebody else's transaction.
    """

    _pooled_cursor = PooledCursor
    _threshold: int | None = 5  # psycopg's; see `plan_anew`
    lent = False
    traces = True
    ahead = False  # a transaction is open that nobody has used yet
    one_statement_only = False  # of the statement that is being sent

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = Cursor
        self.server_cursor_factory = ServerCursor
        self._owner = threading.get_ident()
        self._at_home = frozenset(_threads())  # the app's own, from before any handler
        self._elders: frozenset[int] = frozenset()  # left behind by handlers before this one
        self._marker = ""
        self.begun = False  # a transaction was begun since the connection was lent

    # -- for the runner ---------------------------------------------------------------------------

    def lend(self, marker: str) -> None:
        """Hand the connection to a handler; `marker` names its claim inside the transaction.

        One that was begun ahead for this very claim (`finish`) becomes the handler's with its first
        statement.
        """
        if self.ahead and marker != self._marker:
            self.drop_ahead()
        self._marker = marker
        self._autocommit = self.begun = False
        if threading.active_count() != len(self._at_home):
            self._elders = frozenset(_threads()) - self._at_home
        self.lent = True

    def take_back(self, *, one_statement: bool) -> None:
        """The handler is over: from now on only the owner's thread gets through.

        Under the connection's lock, so that no statement of another thread is half-way. A handler that
        sent nothing leaves no transaction; with `one_statement` what follows needs none either.
        """
        with self.lock:
            self.lent = False
            if self._pipeline is not None:
                self._leave_pipeline()
        self.begun = self.begun or self.open  # whoever began it: then our marker is missing
        if not self.begun:
            self.drop_ahead()
        self._autocommit = one_statement and not self.begun

    def _leave_pipeline(self) -> None:
        # In a pipeline that a handler left open our COMMIT would be queued, and never be sent.
        pipeline: Any = self._pipeline
        self._pipeline = None
        with suppress(psycopg.Error):  # what failed in it shows in the transaction's status
            self.wait(pipeline._exit_gen())
        pipeline.level = 1
        with suppress(psycopg.Error):
            pipeline._exit(None)

    @property
    def open(self) -> bool:
        """Whether a transaction is open, be it broken or not."""
        return self.pgconn.transaction_status != pq.TransactionStatus.IDLE

    @property
    def ended_by_handler(self) -> bool:
        """Whether the transaction that was begun is no longer there."""
        return self.begun and not self.open

    @property
    def failed(self) -> bool:
        """Whether a statement failed in the open transaction, so that COMMIT would roll back."""
        return self.pgconn.transaction_status == pq.TransactionStatus.INERROR

    def end(self, command: bytes) -> None:
        """End the open transaction with COMMIT or ROLLBACK, and be in autocommit mode again."""
        self.lent = self.ahead = False
        if self.open:
            with self.lock:
                self.wait(self._exec_command(command))
        self._autocommit = True

    def drop_ahead(self) -> None:
        """End a transaction that was begun ahead and is not wanted."""
        if self.ahead:
            self.ahead = False
            self.send(b"rollback")

    def finish(self, completion: Completion, following: str | None = None) -> None:
        """Complete and commit in one round trip, and be in autocommit mode again; `following` is the
        marker of the claim whose transaction is begun on the same way.

        Nothing of ours may be sent in that but through `_start_query`, which ends it first.
        """
        self.lent = False
        if self.ours and not self.traces:  # else who knows what is left of our prepared statements
            self.send_completion(completion, following)
        else:
            self.send(completion.text)
            following = None
        self._autocommit = True
        if following is not None:
            self._marker, self.ahead, self.begun = following, True, False

    @property
    def is_between_transactions(self) -> bool:
        """A transaction that was begun ahead makes way for a statement of ours."""
        return not self.lent and (self.ahead or super().is_between_transactions)

    def begin_group(self, marker: str) -> None:
        """Begin a transaction for several handlers, each behind a savepoint."""
        self.lend(marker)
        self._begin()
        self.send(b"savepoint " + SAVEPOINT)
        self.lent = False

    def lend_again(self) -> None:
        """Hand the open transaction of a group to the next handler."""
        self.lent = True

    def keep_member(self) -> None:
        """The last handler's writes are to stay in the group."""
        self.send(b"release savepoint %b; savepoint %b" % (SAVEPOINT, SAVEPOINT))

    def undo_member(self) -> None:
        """The last handler's writes are undone; the others' stand."""
        self.send(b"rollback to savepoint " + SAVEPOINT)

    def restore(self, *, thorough: bool = False) -> None:
        """Undo what the handler left in the session and on this object."""
        self.row_factory = tuple_row
        self.cursor_factory = PooledCursor if self.pooled else Cursor
        self.server_cursor_factory = ServerCursor
        self.prepare_threshold = None if self.pooled else self._threshold
        self._isolation_level = self._read_only = self._deferrable = None
        self._begin_statement = b""
        self._adapters = self._tpc = None
        self._num_transactions = 0  # of blocks that were entered and never left
        self._notice_handlers.clear()
        self._notify_handlers.clear()
        # Behind a pooler the session was somebody else's a moment ago, and is again by now.
        if (self.traces or thorough) and not self.pooled:
            self.execute(query("reset_session"), prepare=False)
            ensure_durable(self)
            self.traces = self.has_prepared = self.free = False

    # -- while lent -------------------------------------------------------------------------------

    def look_at(self, statement: Query) -> None:
        """Refuse a statement that ends the transaction; note one that leaves traces."""
        text = statement if isinstance(statement, str) else _text_of(statement, self)
        if word := ends_transaction(text):
            _refuse(word)
        self.one_statement_only = may_end_later(text)
        self.traces = self.traces or leaves_traces(text)

    def _start_query(self) -> PQGen[None]:
        if self.ahead:
            self.ahead = False
            if self.lent:
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
        yield from self._begun(super()._get_tx_start_command(), self._marker)

    def wait(self, gen: PQGen[_RV], *args: Any, **kwargs: Any) -> _RV:
        """psycopg's, closed to threads that outlived the handler that started them."""
        thread = threading.get_ident()
        if thread != self._owner and (not self.lent or thread in self._elders):
            raise TransactionMisuse("the handler is over, and with it this transaction")
        try:
            return super().wait(gen, *args, **kwargs)
        except psycopg.errors.SyntaxError as error:
            if self.lent and self.one_statement_only and "multiple commands" in str(error):
                _refuse("an end of the transaction behind another statement")
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
            self.wait(self._start_query())
        with super()._pipeline_nolock() as pipeline:
            yield pipeline

    def _begin(self) -> None:
        with self.lock:
            self.wait(self._start_query())

    def _check_intrans_gen(self, attribute: str) -> PQGen[None]:
        # A handler sets its isolation level before its first statement: begin anew for that.
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


def _threads() -> Iterator[int]:
    return (thread.ident for thread in threading.enumerate() if thread.ident is not None)


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
