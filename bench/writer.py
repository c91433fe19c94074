"""One of several concurrent writers: tasks one by one, each its own commit. A process of its own.

Says `ready`, waits for a line, and then says how many it added.  Arguments: SECONDS on|off
"""

import os
import sys
import time

import runner
from bench.stage import connect
from bench.together import ready, tell

PARAMS = {"path": "/a/file.txt"}


def write(url: str, seconds: float, notify: bool) -> int:
    """How many in that time; with `notify` off the database tells nobody of them."""
    count = 0
    with connect(url) as conn:
        if not notify:
            conn.execute("set runner.notify = off")
        runner.enqueue(conn, "noop", PARAMS)
        ready()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            runner.enqueue(conn, "noop", PARAMS)
            count += 1
    return count


if __name__ == "__main__":
    tell(write(os.environ["DATABASE_URL"], float(sys.argv[1]), sys.argv[2] == "on"))
