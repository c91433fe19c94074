"""The connection that a worker claims with and hands to handlers, guarded while it is lent."""

import secrets
import threading
from collections import deque
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq
from psycopg._preparing import PrepareManager
from psycopg.rows import tuple_row

from .connect import ensure_durable
from .cursors import Cursor, PooledCursor, ServerCursor
from .guarded import Guarded
from .savepoints import Savepoints
from .sending import KEEP_MEMBERS, OPEN_MEMBER, UNDO_MEMBER, Completion
from .sql import query

LOOK_SECONDS = 0.1  # between looks at whether a thread that holds the lock is still there


class Tx(Guarded):
    """A psycopg connection whose transaction is the runner's.

    While it is lent to a handler, the transaction begins with the handler's first statement, blocks of
    `transaction()` are savepoints, and commit, rollback and close are refused: the task is deleted in
    this transaction, so only the runner ends it. A thread that a handler left behind may not use it any
    more, neither between loans nor in the next one: it would write into somebody else's transaction.
    """

    _pooled_cursor = PooledCursor
    _threshold: int | None = 5  # psycopg's; see `plan_anew`

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = Cursor
        self.server_cursor_factory = ServerCursor
        # psycopg's generators (stream, copy) hold the lock from one step to the next, and one in a
        # variable lives as long as the handler's traceback: with a plain lock we would wait for ever.
        self.lock: Any = threading.RLock()
        self._members = Savepoints()
        self.marker = secrets.token_hex(8)
        self._at_home = frozenset(threading.enumerate())  # the app's own, from before any handler

    def lend(self) -> None:
        """Hand the connection to a handler. A transaction that was begun ahead (`finish`) becomes the
        handler's with its first statement."""
        self._autocommit = self.begun = self.cut_short = False
        self._meet_elders()
        self.lent = True

    def _meet_elders(self) -> None:
        if self._elders or threading.active_count() != len(self._at_home):
            self._elders = frozenset(threading.enumerate()) - self._at_home

    def take_back(self, *, one_statement: bool) -> None:
        """The handler is over: from now on only the owner's thread gets through.

        Under the connection's lock, so that no statement of another thread is half-way. A handler that
        sent nothing leaves no transaction, unless one was begun ahead for it; with `one_statement` what
        follows needs none either.
        """
        if not self.lock.acquire(False):
            self._wait_for_lock()
        try:
            self.lent = False
            if self._pipeline is not None:
                self._leave_pipeline()
            if self.unanswered:
                with suppress(psycopg.Error):  # that it is lost shows in the transaction's status
                    self._answer()
        finally:
            self.lock.release()
        if self.lock._is_owned():
            self.lock = threading.RLock()  # a generator that is left keeps the other one
        self.begun = self.begun or self.open  # whoever began it: if not we, our marker is missing
        self._autocommit = one_statement and not self.begun

    def _wait_for_lock(self) -> None:
        # Whoever holds it is in a statement, or it is a generator's, kept from a thread that is over.
        while not self.lock.acquire(timeout=LOOK_SECONDS):
            if not frozenset(threading.enumerate()) - self._at_home:
                self.lock = threading.RLock()

    def _leave_pipeline(self) -> None:
        # In a pipeline that a handler left open our COMMIT would be queued, and never be sent.
        pipeline: Any = self._pipeline
        self._pipeline = None
        with suppress(psycopg.Error):  # what failed in it shows in the transaction's status
            self.wait(pipeline._exit_gen())
        pipeline.level = 1
        with suppress(psycopg.Error):
            pipeline._exit(None)
        self.look_back_on_pipeline()

    @property
    def stands(self) -> bool:
        """Whether the transaction is there if one was begun, and can be committed."""
        whole = self.pgconn.transaction_status == pq.TransactionStatus.INTRANS
        return whole or not (self.failed or self.ended_by_handler)

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
        self.before = ()
        if self.open:
            with self.lock:
                self.wait(self._exec_command(command))
        self._autocommit = True

    def finish(self, completion: Completion, *, chain: bool = False) -> None:
        """Complete and commit in one round trip, and be in autocommit mode again; with `chain` the next
        transaction is begun on the same way, and then it is not waited for.

        Nothing of ours may be sent in that but through `_start_query`, which ends it first.
        """
        self.lent = self.ahead = False
        if not self.ours or self.traces:  # else who knows what is left of our prepared statements
            self.send(completion.text)
        elif chain and self.free:
            self.send_completion_ahead(completion)
            self.begun = False
        else:
            self.send_completion(completion)
        self._autocommit = True

    def begin_group(self) -> None:
        """Begin a transaction for several handlers, each behind a savepoint of its own."""
        self.lend()
        self._begin()
        self.lent, self.unsent = False, None
        self._members = Savepoints()
        self.before = [OPEN_MEMBER % self._members.current]

    def lend_again(self) -> None:
        """Hand the open transaction of a group to the next handler."""
        self._meet_elders()
        self._restore_object()
        self.lent, self.nests = True, False

    def keep_member(self) -> None:
        """The last handler's writes are to stay in the group: told with the next first statement."""
        if self.before:
            return  # it has sent nothing
        outermost = self._members.keep(left_some=self.nests)
        opened = OPEN_MEMBER % self._members.current
        self.before = [KEEP_MEMBERS % outermost, opened] if outermost else [opened]

    def undo_member(self) -> None:
        """The last handler's writes are undone; the others' stand."""
        if not self.before:  # else it has sent nothing
            self.send(UNDO_MEMBER % self._members.current)

    def restore(self, *, thorough: bool = False) -> None:
        """Undo what the handler left in the session and on this object."""
        self._restore_object()
        if self.traces or thorough:
            # Behind a pooler the session was somebody else's a moment ago, and is again by now.
            if not self.pooled:
                self.execute(query("reset_session"), prepare=False)
                ensure_durable(self)
                self.look_for_prepared()
            self._notifies_backlog = deque()  # what came by LISTEN is for nobody any more
            self.traces = self.free = False

    def _restore_object(self) -> None:
        self.row_factory = tuple_row
        self.cursor_factory = PooledCursor if self.pooled else Cursor
        self.server_cursor_factory = ServerCursor
        self.prepare_threshold = None if self.pooled else self._threshold
        self.prepared_max = PrepareManager.prepared_max
        self._isolation_level = self._read_only = self._deferrable = None
        self._begin_statement = b""
        self._tpc = None
        if self.doubts:
            self.forget_prepared()
        if self.adapted:  # to copy psycopg's anew costs more than all the rest here
            self._adapters, self.adapted = None, False
        self._num_transactions = 0  # of blocks that were entered and never left
        self._notice_handlers.clear()
        self._notify_handlers.clear()
