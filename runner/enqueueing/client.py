"""A small client with connections of its own, for applications that have none at hand."""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from . import Delay, When, enqueue, enqueue_many

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool


class Client:
    """Adds tasks, each call in a transaction of its own.

    ::

        with runner.Client("postgresql://…") as client:
            client.enqueue("resize_photo", {"path": "a.jpg"})

    Connects when it is first used, holds at most `max_size` connections, and may be shared by threads
    and used on after a fork. `timeout`: seconds to wait for a connection.
    """

    def __init__(self, dsn: str, *, max_size: int = 4, timeout: float = 30.0) -> None:
        self._dsn = dsn
        self._max_size = max_size
        self._timeout = timeout
        self._lock = threading.Lock()
        self._pool: ConnectionPool[Any] | None = None
        self._pid = 0

    def enqueue(
        self,
        type_or_instance: Any,
        params: Any = None,
        *,
        queue: str = "default",
        priority: int = 5,
        run_at: When = None,
        delay: Delay = None,
        key: str | None = None,
        unique: bool = False,
        max_attempts: int | None = None,
    ) -> int | None:
        """Add a task and commit; its id, or None when nothing was added."""
        with self.connection() as conn:
            return enqueue(
                conn, type_or_instance, params, queue=queue, priority=priority, run_at=run_at,
                delay=delay, key=key, unique=unique, max_attempts=max_attempts,
            )  # fmt: skip

    def enqueue_many(
        self,
        items: Iterable[Any],
        *,
        type: str | None = None,
        queue: str = "default",
        priority: int = 5,
        run_at: When = None,
        delay: Delay = None,
        unique: bool = False,
        max_attempts: int | None = None,
    ) -> int:
        """Add many tasks, all or none; how many were added."""
        with self.connection() as conn:
            return enqueue_many(
                conn, items, type=type, queue=queue, priority=priority, run_at=run_at,
                delay=delay, unique=unique, max_attempts=max_attempts,
            )  # fmt: skip

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """A psycopg connection in a transaction, committed at the end of the block, for work of one's
        own beside the tasks."""
        with self._open().connection() as conn:
            yield conn

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.close()

    def _open(self) -> "ConnectionPool[Any]":
        from psycopg_pool import ConnectionPool

        from ..store.connect import parse

        with self._lock:
            # After a fork the parent's connections are not ours, not even to close them.
            if self._pool is None or self._pid != os.getpid():
                self._pool = ConnectionPool(
                    kwargs={"application_name": "runner client", **parse(self._dsn)},
                    min_size=0,
                    max_size=self._max_size,
                    timeout=self._timeout,
                    check=ConnectionPool.check_connection,
                    open=True,
                    name="runner-client",
                )
                self._pid = os.getpid()
            return self._pool

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
