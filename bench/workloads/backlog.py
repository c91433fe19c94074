"""Whether a claim costs more when more is waiting."""

from bench.fleet import PROCS, Fleet, fill, fleet
from bench.rates import watch
from bench.report import Line, Outcome, ratio_at_least
from bench.sizes import Sizes
from bench.stage import Connection, Stage, connect, database, tracked
from bench.statements import Meter, claims

CLASSES = ("--priority", "high=1", "--priority", "middle=5", "--priority", "low=9")
SHARES = {"high": 0.1, "middle": 0.2, "low": 0.7}  # most of a backlog is of the last class
NAIVE = """
explain (analyze, buffers, format json)
select task_id from runner.task where state = 'ready'
order by case task_type when 'high' then 1 when 'middle' then 5 else 9 end, random()
limit 1 for update skip locked"""


def backlog(place: Stage, sizes: Sizes) -> Outcome:
    """The rate while no fewer than so many wait, without and with three classes, interleaved."""
    plain: dict[int, list[float]] = {level: [] for level in sizes.backlogs}
    classes: dict[int, list[float]] = {level: [] for level in sizes.backlogs}
    costs: list[dict[str, float | int | str]] = []
    with database(place) as url, connect(url) as conn:
        for _ in range(sizes.repeat):
            for level in sizes.backlogs:
                waiting = level + sizes.backlog_tasks
                fill(conn, {"noop": waiting})
                plain[level].append(_rate(place, url, sizes, level, (), costs))
                fill(conn, {name: int(waiting * share) for name, share in SHARES.items()})
                naive = naive_milliseconds(conn)
                classes[level].append(_rate(place, url, sizes, level, CLASSES, costs))
                costs.append({"level": level, "kind": "naive", "milliseconds": naive})
    least = min(sizes.backlogs)
    lines = [
        Line(
            f"backlog {level:,}{kind}", "tasks/s", rates[level], rates[least],
            f"{least:,} waiting", ratio_at_least(0.9) if level == max(sizes.backlogs) else None,
        )
        for kind, rates in (("", plain), (", three classes", classes))
        for level in sizes.backlogs
    ]  # fmt: skip
    return Outcome(lines, details={"claims": costs})


def naive_milliseconds(conn: Connection) -> float:
    """What one claim takes that sorts all rows by CASE and random(): the plain way to say it."""
    row = conn.execute(NAIVE).fetchone()
    return float(row[0][0]["Execution Time"]) if row else 0.0


def _rate(
    place: Stage, url: str, sizes: Sizes, level: int, options: tuple[str, ...],
    costs: list[dict[str, float | int | str]],
) -> float:  # fmt: skip
    own = tracked(url) if place.statements else None
    with fleet(place, url, *options, own_url=own) as running:
        meter = Meter(running.conn, place.statements)
        meter.start()
        rate = watch(running, PROCS, sizes.backlog_tasks, sizes.most_seconds * 3).rate
        _note_claims(running, meter, level, "classes" if options else "plain", costs)
    return rate


def _note_claims(
    running: Fleet, meter: Meter, level: int, kind: str, costs: list[dict[str, float | int | str]]
) -> None:
    """The claim's own cost, where statements are told apart."""
    if meter.by_statement and (cost := claims(meter.costs())) and cost.rows:
        costs.append(
            {
                "level": level,
                "kind": kind,
                "calls": cost.calls,
                "rows": cost.rows,
                "milliseconds": cost.milliseconds / cost.calls,
                "milliseconds_a_task": cost.milliseconds / cost.rows,
                "buffers_a_task": cost.buffers / cost.rows,
            }
        )
