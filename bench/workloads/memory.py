"""Memory of the parent and of the workers, and whether tasks make it grow."""

import time

from bench import procfs
from bench.fleet import PROCS, fill, fleet
from bench.rates import watch
from bench.report import Line, Outcome, at_most
from bench.sizes import Sizes
from bench.stage import Stage, connect, database

MEGABYTE = 1 << 20
WARM_SHARE = 0.1  # buffers have grown to their size by then
MOST_SECONDS = 1800.0
FLAT_MEGABYTES = 1.0


def memory(place: Stage, sizes: Sizes) -> Outcome:
    """Once: the parent at a tenth of the tasks and after all of them.

    Its growth is that of all that is resident: its share of what it shares with its children grows as
    they cease to share it, though nobody needs a page more.
    """
    with database(place) as url:
        with connect(url) as conn:
            fill(conn, {"noop": sizes.memory})
        with fleet(place, url) as running:
            watch(running, PROCS, int(sizes.memory * WARM_SHARE), MOST_SECONDS)
            before = procfs.rss_bytes(running.process.pid) / MEGABYTE
            course = watch(running, PROCS, sizes.memory, MOST_SECONDS)
            time.sleep(1.0)
            after = procfs.rss_bytes(running.process.pid) / MEGABYTE
            parent = procfs.pss_bytes(running.process.pid) / MEGABYTE
            workers = [procfs.pss_bytes(pid) / MEGABYTE for pid in running.worker_pids().values()]
            family = sum(map(procfs.pss_bytes, running.pids())) / MEGABYTE
    return Outcome(
        [
            Line("memory: parent", "MB PSS", [parent], target=at_most(25)),
            Line(
                f"memory: growth of the parent over {course.done:,} tasks", "MB RSS",
                [after - before], target=at_most(FLAT_MEGABYTES),
            ),
            Line("memory: worker, app included", "MB PSS", workers, target=at_most(25)),
            Line("memory: whole fleet", "MB PSS", [family]),
        ],
        details={"tasks": course.done},
    )  # fmt: skip
