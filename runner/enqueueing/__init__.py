"""Adding tasks on the caller's own connection and within its transaction. Nothing here commits.

Everything is judged before any SQL is sent: what is refused leaves the transaction usable.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from ..statements import statement
from .batch import Batch, gather
from .drivers import Driver, async_driver, render, sync_driver
from .envelope import seal

When = datetime | None
Delay = float | timedelta | None


def enqueue(
    conn: Any,
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
    """Add a task in the transaction of `conn`; its id, or None when nothing was added.

    Nothing is added when a unique task with the same queue, type and params is waiting, or when the key
    has a task or was completed. What cannot be stored is an InvalidTask, raised before any SQL is sent.

    `conn`: psycopg (connection or cursor), psycopg2, SQLAlchemy Connection or Session, Django's
    connection. `type_or_instance`: a task type, or an instance of a registered class, whose fields
    are the params. `params`: any JSON value; left out, or None, it is {}.
    """
    driver = sync_driver(conn)
    task = seal(
        type_or_instance, params, queue=queue, priority=priority, run_at=run_at, delay=delay,
        key=key, unique=unique, max_attempts=max_attempts,
    )  # fmt: skip
    added: int | None = driver.call("enqueue", task._asdict())
    return added


async def aenqueue(
    conn: Any,
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
    """`enqueue` for asyncio: psycopg, asyncpg, SQLAlchemy's AsyncConnection or AsyncSession."""
    driver = async_driver(conn)
    task = seal(
        type_or_instance, params, queue=queue, priority=priority, run_at=run_at, delay=delay,
        key=key, unique=unique, max_attempts=max_attempts,
    )  # fmt: skip
    added: int | None = await driver.call("enqueue", task._asdict())
    return added


def enqueue_sql(
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
    style: str = "pyformat",
) -> tuple[str, Any]:
    """The statement that `enqueue` would send, and its parameters, for any other driver.

    `style`: pyformat, named (parameters are a dict), format, qmark, numeric, numeric_dollar (a list).
    """
    task = seal(
        type_or_instance, params, queue=queue, priority=priority, run_at=run_at, delay=delay,
        key=key, unique=unique, max_attempts=max_attempts,
    )  # fmt: skip
    return render(statement("enqueue"), task._asdict(), style)


def enqueue_many(
    conn: Any,
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
    """Add many tasks in the transaction of `conn`; how many were added.

    `items`: instances of registered classes, pairs (type, params), dicts with the fields of `enqueue`,
    or with `type` params alone (None: the JSON null). The other arguments hold where an item says
    nothing else. All are judged before the first is sent, and they are sent in one statement: COPY where
    the driver has it.
    """
    driver = sync_driver(conn)
    defaults = {"queue": queue, "priority": priority, "run_at": run_at, "delay": delay,
                "unique": unique, "max_attempts": max_attempts}  # fmt: skip
    batch = gather(items, type, defaults)
    return send(driver, batch)


def send(driver: Driver, batch: Batch) -> int:
    """Add judged tasks in one statement; how many were added."""
    if batch.size == 0:
        return 0
    if batch.is_plain and driver.copy(batch.copy_data()):
        return batch.size
    return int(driver.call("enqueue_rows", batch.rows()))


async def aenqueue_many(
    conn: Any,
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
    """`enqueue_many` for asyncio."""
    driver = async_driver(conn)
    defaults = {"queue": queue, "priority": priority, "run_at": run_at, "delay": delay,
                "unique": unique, "max_attempts": max_attempts}  # fmt: skip
    batch = gather(items, type, defaults)
    if batch.size == 0:
        return 0
    if batch.is_plain and await driver.copy(batch.copy_data()):
        return batch.size
    return int(await driver.call("enqueue_rows", batch.rows()))
