"""One identity of a worker: a connection, a row in runner.worker, and how it ends its claims."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NoReturn
from uuid import UUID, uuid4

import psycopg

from ..errors import LeaseLost, TransactionMisuse
from ..judge import Claim, Verdict
from ..store import ending
from ..store.connect import is_infrastructure
from ..store.tx import Tx
from ..wire import Outcome

Judgement = Callable[[Claim], Verdict]
_log = logging.getLogger(__name__)
UNSTORABLE = "the error could not be stored"


class Disconnected(Exception):
    """The connection is of no use any more, and with it the identity; `left` is what it held."""

    def __init__(self, left: "Left | None" = None) -> None:
        super().__init__("connection lost")
        self.left = left


@dataclass(frozen=True)
class Left:
    """A claim whose end could not be written: decided under the next identity.

    `xid` is set when a COMMIT was sent and not answered.
    """

    claim: Claim
    judgement: Judgement
    xid: str | None = None


@dataclass
class Session:
    """A connection with its worker id."""

    conn: Tx
    worker_id: UUID = field(default_factory=uuid4)

    def complete(self, claim: Claim, key: str | None, task_type: str, marker: str) -> str:
        """Delete the task in the handler's open transaction, or alone; its xid, before COMMIT.

        LeaseLost when it is not ours; TransactionMisuse when the handler ended the transaction.
        """
        xid, found = ending.complete(self.conn, self.worker_id, claim.task_id, claim.fence)
        if self.conn.begun and found != marker:
            raise TransactionMisuse("the handler ended the transaction that deletes its task")
        if key is not None and not ending.leave_receipt(self.conn, key, claim.task_id, task_type):
            raise AlreadyDone(key)
        return xid

    def write(self, claim: Claim, verdict: Verdict) -> Outcome:
        """End the claim by a verdict, outside any transaction; LOST when it was not ours any more."""
        left = Left(claim, lambda _: verdict)
        try:
            return self._write(claim, verdict)
        except (psycopg.DataError, UnicodeError):
            # Whatever is wrong with the text, the failure itself must be on record.
            return self._write(claim, replace(verdict, error=UNSTORABLE, cause=UNSTORABLE))
        except psycopg.Error as error:
            self.give_up(error, left)

    def _write(self, claim: Claim, verdict: Verdict) -> Outcome:
        try:
            ending.end_claim(self.conn, self.worker_id, claim.task_id, claim.fence, verdict)
        except LeaseLost:
            return Outcome.LOST
        return verdict.outcome

    def give_up(self, error: BaseException, left: Left | None = None) -> NoReturn:
        """End this identity: close the connection, and say what it held."""
        _log.debug("giving up the connection: %s", type(error).__name__)
        self.conn.lent = False
        self.conn.close()
        raise Disconnected(left) from error

    def broken_by(self, error: BaseException) -> bool:
        """Whether the error means that this identity is over."""
        return is_infrastructure(error, self.conn)


class AlreadyDone(Exception):
    """The key of this task has a receipt: roll back, and delete the row."""


def settle_former(conn: Tx, former: UUID, left: Left | None, released: Judgement) -> Outcome:
    """Under a new identity, end what the former one held; how its begun claim ended.

    The row's own claim tells: if COMMIT went through it is gone.
    """
    committed = left is not None and left.xid and ending.xact_status(conn, left.xid) == "committed"
    ending.terminate_backend(conn, former)

    def judge(claim: Claim) -> Verdict:
        if left is not None and claim.fence == left.claim.fence:
            return left.judgement(claim)
        return released(claim)

    ended = ending.settle(conn, former, judge) or []
    if left is None:
        return Outcome.NONE
    if committed:
        return Outcome.OK
    for one in ended:
        if one.task_id == left.claim.task_id:
            return one.verdict.outcome
    return Outcome.LOST
