"""What a fleet of eight costs while there is nothing to do."""

import time

from bench import procfs
from bench.fleet import fleet
from bench.report import Line, Outcome, at_most
from bench.sizes import Sizes
from bench.stage import Stage, database, tracked
from bench.statements import Meter, total

PROCS = 8


def idle(place: Stage, sizes: Sizes) -> Outcome:
    """CPU time of all its processes, and of their sessions in the server where that is ours."""
    own, server, statements, buffers = [], [], [], []
    for _ in range(sizes.repeat):
        with (
            database(place) as url,
            fleet(place, url, procs=PROCS, own_url=_counted(place, url)) as running,
        ):
            running.wait_idle(PROCS)
            meter = Meter(running.conn, place.statements)
            pids = running.pids()
            query = "select pid from pg_stat_activity where application_name like 'runner%'"
            sessions = [row[0] for row in running.conn.execute(query)] if place.embedded else []
            meter.start()
            began, used = time.monotonic(), procfs.cpu_seconds(pids)
            served = procfs.cpu_seconds(sessions)
            time.sleep(sizes.idle_seconds)
            seconds = time.monotonic() - began
            own.append((procfs.cpu_seconds(pids) - used) / seconds * 100)
            server.append((procfs.cpu_seconds(sessions) - served) / seconds * 100)
            costs = meter.costs()
        statements.append(total(costs).calls / seconds)
        buffers.append(total(costs).buffers / seconds)
    lines = [
        Line("idle fleet of 8: CPU", "% of a core", own, target=at_most(1)),
        Line("idle fleet of 8: statements", "1/s", statements, target=at_most(5)),
        Line("idle fleet of 8: buffers", "1/s", buffers),
    ]
    if place.embedded:
        lines.append(Line("idle fleet of 8: CPU of its sessions", "% of a core", server))
    details = [{"query": cost.query, "calls": cost.calls} for cost in costs]
    return Outcome(lines, details={"last_repetition": details})


def _counted(place: Stage, url: str) -> str | None:
    return tracked(url) if place.statements else None
