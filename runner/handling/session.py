"""One identity of a worker: a connection, a row in runner.worker, and how it ends its claims."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple, NoReturn
from uuid import UUID, uuid4

import psycopg

from ..errors import LeaseLost, TransactionMisuse
from ..judge import Claim, Verdict
from ..store import ending
from ..store.connect import is_infrastructure
from ..store.sending import Completion
from ..store.tx import Tx
from ..wire import Outcome, Token

Judgement = Callable[[Claim], Verdict]
UNSTORABLE = "the error could not be stored"
ENDED = "the handler ended the transaction that deletes its task"
LEASE_LOST, MISUSE = "RN001", "RN002"  # raised by runner.complete()


class Disconnected(Exception):
    """The connection is of no use any more, and with it the identity; `left` is what it held."""

    def __init__(self, left: "Collection[Left]" = ()) -> None:
        super().__init__("connection lost")
        self.left = left


class Left(NamedTuple):
    """A claim whose end could not be written, or whose COMMIT was not answered: decided under the
    next identity, by what the row says."""

    claim: Claim
    judgement: Judgement
    committing: bool = False


class AlreadyDone(Exception):
    """The key of this task has a receipt: roll back, and delete the row."""


@dataclass
class Session:
    """A connection with its worker id."""

    conn: Tx
    worker_id: UUID = field(default_factory=uuid4)
    uncertain: Left | None = None  # its completion is sent, and its end not told yet

    def __post_init__(self) -> None:
        self._owner = str(self.worker_id)

    def complete_and_commit(self, claim: Claim, *, chain: bool = False) -> None:
        """Delete the task in its handler's transaction and commit it, in one round trip; and begin
        the next one, with `chain`: then what fails of it is `late` of the connection.

        LeaseLost when it is not ours; TransactionMisuse when the handler ended the transaction.
        """
        completion = Completion(
            claim.task_id, self._owner, claim.fence, self.conn.marker, claim.ctid
        )
        try:
            self.conn.finish(completion, chain=chain)
        except psycopg.Error as error:
            cause = meant(error)
            if cause is error:
                raise
            raise cause from error

    def complete_keyed(self, claim: Claim, key: str, task_type: str) -> None:
        """The same for a task with a key; AlreadyDone when somebody has completed that before."""
        found = ending.complete(self.conn, self.worker_id, claim.task_id, claim.fence)
        if self.conn.begun and found != self.conn.marker:
            raise TransactionMisuse(ENDED)
        if not ending.leave_receipt(self.conn, key, claim.task_id, task_type):
            raise AlreadyDone(key)
        self.conn.end(b"COMMIT")

    def drop(self, claim: Claim) -> None:
        """Delete a task whose key was completed before, by itself."""
        ending.complete(self.conn, self.worker_id, claim.task_id, claim.fence)

    def complete_group(self, done: Collection[Token]) -> None:
        """Delete the tasks of a group in the transaction that they share, and commit it."""
        self.conn.before = ()  # what is kept by savepoints is kept by the COMMIT
        if done:
            found = ending.complete_group(self.conn, self.worker_id, done)
            if found != self.conn.marker:
                raise TransactionMisuse(ENDED)
        self.conn.end(b"COMMIT")

    def write(self, claim: Claim, verdict: Verdict) -> Outcome:
        """End the claim by a verdict, outside any transaction; LOST when it was not ours any more."""
        try:
            try:
                return self._write(claim, verdict)
            except (psycopg.DataError, UnicodeError):
                # Whatever is wrong with the text, the failure itself must be on record.
                return self._write(claim, replace(verdict, error=UNSTORABLE, cause=UNSTORABLE))
        except psycopg.Error as error:
            self.give_up(error, [Left(claim, lambda _: verdict)])

    def _write(self, claim: Claim, verdict: Verdict) -> Outcome:
        try:
            ending.end_claim(self.conn, self.worker_id, claim.task_id, claim.fence, verdict)
        except LeaseLost:
            return Outcome.LOST
        return verdict.outcome

    def give_up(self, error: BaseException, left: Collection[Left] = ()) -> NoReturn:
        """End this identity: close the connection, and say what it held."""
        self.conn.lent = False
        self.conn.close()
        known = [one for one in left if not (self.uncertain and one.claim == self.uncertain.claim)]
        raise Disconnected([*known, *([self.uncertain] if self.uncertain else [])]) from error

    def broken_by(self, error: BaseException) -> bool:
        """Whether the error means that this identity is over."""
        return is_infrastructure(error, self.conn)


def meant(error: psycopg.Error) -> Exception:
    """What a completion that failed so has come to."""
    if error.sqlstate == LEASE_LOST:
        return LeaseLost(str(error))
    return TransactionMisuse(ENDED) if error.sqlstate == MISUSE else error


@dataclass
class Former:
    """An identity that was lost, with all that is known of its claims."""

    worker_id: UUID
    left: Collection[Left] = ()
    done: Collection[Token] = ()

    def settle(self, conn: Tx, released: Judgement) -> dict[int, Outcome]:
        """Under a new identity, end what this one held; how each begun claim ended, by task.

        Its old session is ended first. Then a row that is still there was not completed, and one that
        is gone was: its deletion and its effect are one transaction.
        """
        judgements = {left.claim.token: left.judgement for left in self.left}
        ending.terminate_backend(conn, self.worker_id)

        def judge(claim: Claim) -> Verdict:
            return judgements.get(claim.token, released)(claim)

        ended = ending.settle(conn, self.worker_id, judge, done=self.done)
        if ended is None:
            return {left.claim.task_id: Outcome.LOST for left in self.left}
        outcomes = {one.task_id: one.verdict.outcome for one in ended}
        return {
            left.claim.task_id: outcomes.get(left.claim.task_id) or self._gone(conn, left)
            for left in self.left
        }

    @staticmethod
    def _gone(conn: Tx, left: Left) -> Outcome:
        if left.committing and not ending.was_removed(conn, left.claim.task_id):
            return Outcome.OK
        return Outcome.LOST
