"""An app that opens a connection and a pool when it is imported, and uses both in its handlers."""

import os

import psycopg
from psycopg_pool import ConnectionPool

from tests.apps.chores import EFFECT, tasks

__all__ = ["tasks"]
URL = os.environ["DATABASE_URL"]
CONNECTION = psycopg.connect(URL, autocommit=True)
POOL = ConnectionPool(URL, min_size=1, max_size=2, open=True)
OPENED_BY = os.getpid()


@tasks.task
def connected(tx, task):
    """What each connection answers is what it was asked, by this process."""
    (mine,) = CONNECTION.execute("select %s::bigint", [task.id]).fetchone()
    with POOL.connection() as conn:
        (pooled,) = conn.execute("select %s::bigint", [task.id]).fetchone()
    assert (mine, pooled, OPENED_BY) == (task.id, task.id, os.getpid())
    tx.execute(EFFECT, [task.id, task.attempt])
