"""The floor of effect in Python: psycopg and nothing else, each task's effect and deletion in one
transaction. Nothing is claimed, nothing is fenced, and nobody looks after the process.

Arguments: FIRST COUNT
"""

import os
import sys

import psycopg

from bench.floor import CLIENTS, check_done, fill_floor
from bench.handlers import EFFECT as INSERT
from bench.stage import Connection
from bench.together import ready, tell, together

NAME = "psycopg alone [effect + delete]"
DELETE = "delete from bench.floor where task_id = %s"


def plain_rate(conn: Connection, url: str, tasks: int) -> float:
    """Tasks per second of as many processes as the other floors have clients."""
    each = max(1, tasks // CLIENTS)
    first = fill_floor(conn, each * CLIENTS)
    parts = [(first + each * number, each) for number in range(CLIENTS)]
    done, seconds = together(url, "bench.plain", parts)
    check_done(conn, NAME)
    return done / seconds


def complete(url: str, first: int, count: int) -> int:
    """How many were completed."""
    with psycopg.connect(url, application_name="bench") as conn:
        ready()
        for task_id in range(first, first + count):
            conn.execute(INSERT, [task_id])
            conn.execute(DELETE, [task_id])
            conn.commit()
    return count


if __name__ == "__main__":
    tell(complete(os.environ["DATABASE_URL"], int(sys.argv[1]), int(sys.argv[2])))
