"""What psycopg takes for prepared and is not there: each use of it fails, in one task after the other.

psycopg forgets all at each rollback of its own. Here the runner rolls back, and has it forget only where
there is reason to: to prepare everything anew costs more than most failures.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import Pipeline, pq

from .ahead import Ahead
from .sending import CLAIMS
from .sql import query


class Doubting(Ahead):
    """A connection that notices when what psycopg remembers of its session may be wrong."""

    doubts = False  # what is taken for prepared may not be there

    @contextmanager
    def pipeline(self) -> Iterator[Pipeline]:
        """psycopg's."""
        try:
            with super().pipeline() as pipeline:
                yield pipeline
        finally:
            self.look_back_on_pipeline()

    @contextmanager
    def _pipeline_nolock(self) -> Iterator[Pipeline]:
        try:
            with super()._pipeline_nolock() as pipeline:
                yield pipeline
        finally:
            self.look_back_on_pipeline()

    def look_back_on_pipeline(self) -> None:
        """What was to be prepared behind an error in a pipeline was passed over, and psycopg does not
        notice where it has seen the statement before."""
        status = self.pgconn.transaction_status
        self.doubts = self.doubts or status == pq.TransactionStatus.INERROR

    def look_for_prepared(self) -> None:
        """After a reset, and what may have dropped it. psycopg does not notice each DEALLOCATE ALL: none
        after one that found nothing prepared."""
        found = {name.encode() for (name,) in self.execute(query("prepared"), prepare=False)}
        self.our_prepared = found.intersection(CLAIMS)
        if not found.issuperset(self._prepared._names.values()):
            self.forget_prepared()

    def forget_prepared(self) -> None:
        """Drop all that is prepared. Not in a transaction that is broken."""
        self._prepared.clear()
        self.wait(self._prepared.maintain_gen(self))
        self.doubts = False
