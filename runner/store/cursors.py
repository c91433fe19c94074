"""A handler's cursors: psycopg's, which show its connection each statement before they send it, and take
along what is to go before it (`Guarded`, `Ahead`)."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Self

import psycopg
from psycopg._preparing import Prepare
from psycopg.abc import PQGen, Query

from .bounded import InTransaction


class _Guard:
    """What our cursors add to psycopg's: a look at each statement before it is sent."""

    def __init__(self, connection: Any, *args: Any, **kwargs: Any) -> None:
        connection.makes_cursor = True
        try:
            super().__init__(connection, *args, **kwargs)  # type: ignore[call-arg]
        finally:
            connection.makes_cursor = False

    def _start_query(self, query: Query | None = None) -> PQGen[None]:
        connection: Any = self._conn  # type: ignore[attr-defined]
        if query is not None and connection.lent:
            connection.look_at(query)
        return super()._start_query(query)  # type: ignore[misc,no-any-return]

    def _start_copy_gen(self, statement: Query, *args: Any, **kwargs: Any) -> PQGen[None]:
        connection: Any = self._conn  # type: ignore[attr-defined]
        if connection.lent:
            connection.look_at(statement)
        return super()._start_copy_gen(statement, *args, **kwargs)  # type: ignore[misc,no-any-return]

    def _execute_send(self, query: Any, *, force_extended: bool = False, **kwargs: Any) -> None:
        # The extended protocol takes one statement a string: the server refuses an end behind another
        # statement before it has run any of them.
        connection: Any = self._conn  # type: ignore[attr-defined]
        alone = force_extended or (connection.lent and connection.one_statement_only)
        super()._execute_send(query, force_extended=alone, **kwargs)  # type: ignore[misc]

    def _execute_gen(self, *args: Any, **kwargs: Any) -> PQGen[None]:
        connection: Any = self._conn  # type: ignore[attr-defined]
        gen: PQGen[None] = super()._execute_gen(*args, **kwargs)  # type: ignore[misc]
        along = connection.goes_before and not connection.stale
        return connection.taking_along(gen) if along else gen

    def _maybe_prepare_gen(
        self, pgq: Any, *, prepare: bool | None = None, binary: bool | None = None
    ) -> PQGen[None]:
        connection: Any = self._conn  # type: ignore[attr-defined]
        if connection.goes_before:
            return self._prepare_behind(pgq, prepare, binary)
        return super()._maybe_prepare_gen(pgq, prepare=prepare, binary=binary)  # type: ignore[misc,no-any-return]

    def _prepare_behind(self, pgq: Any, prepare: bool | None, binary: bool | None) -> PQGen[None]:
        # psycopg's, for a statement that is prepared already and takes along what is to go before it.
        connection: Any = self._conn  # type: ignore[attr-defined]
        how, name = self._get_prepared(pgq, prepare)  # type: ignore[attr-defined]
        if how is not Prepare.YES:
            yield from connection.sent_before()
            yield from super()._maybe_prepare_gen(pgq, prepare=prepare, binary=binary)  # type: ignore[misc]
            return
        connection._prepared.maybe_add_to_cache(pgq, how, name)
        send = partial(self._send_query_prepared, name, pgq, binary=binary)  # type: ignore[attr-defined]
        results = yield from connection.sent_before(send)
        self._check_results(results)  # type: ignore[attr-defined]
        self._set_results(results)  # type: ignore[attr-defined]


class Cursor(_Guard, psycopg.Cursor[Any]):
    """A handler's cursor."""

    def stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """psycopg's."""
        self._conn.answer()  # type: ignore[attr-defined]
        return super().stream(*args, **kwargs)


class PooledCursor(InTransaction, Cursor):
    """A handler's cursor, and the runner's own, behind a pooler."""


class ServerCursor(_Guard, psycopg.ServerCursor[Any]):
    """A handler's named cursor."""

    def execute(self, *args: Any, **kwargs: Any) -> Self:
        """psycopg's."""
        self._conn.answer()  # type: ignore[attr-defined]
        return super().execute(*args, **kwargs)
