"""How fast tasks come in: one by one, in bulk, and from eight writers at once."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import runner
from bench.fleet import PROCS, BenchError, Fleet, fleet
from bench.report import Line, Outcome, at_least, ratio_at_least
from bench.sizes import Sizes
from bench.stage import Stage, connect, database
from bench.together import together

WRITERS = 8
PATIENCE_SECONDS = 30.0


def enqueue(place: Stage, sizes: Sizes) -> Outcome:
    """Each figure in a queue that was empty."""
    notes: list[str] = []
    one, bulk = [], []
    written: dict[bool, list[float]] = {True: [], False: []}
    with database(place) as url:
        for repetition in range(sizes.repeat):
            one.append(_one_by_one(url, sizes.enqueue))
            bulk.append(_bulk(url, sizes.bulk))
            first = bool(repetition % 2)  # neither is always the one with the shorter queue
            with _busy_fleet(place, url, notes):
                for notify in (first, not first):
                    written[notify].append(_written(url, sizes.write_seconds, notify=notify))
            _empty(url)
    return Outcome(
        [
            Line("enqueue one by one", "tasks/s", one, target=at_least(2_000)),
            Line("enqueue in bulk", "tasks/s", bulk, target=at_least(60_000)),
            Line(
                f"enqueue by {WRITERS} writers, all workers busy", "tasks/s", written[True],
                written[False], "notify = off", ratio_at_least(0.9),
            ),
        ],
        sorted(set(notes)),
    )  # fmt: skip


def _one_by_one(url: str, count: int) -> float:
    _empty(url)
    with connect(url) as conn:
        began = time.monotonic()
        for number in range(count):
            runner.enqueue(conn, "noop", {"number": number})
        return count / (time.monotonic() - began)


def _bulk(url: str, count: int) -> float:
    """The whole of it: judging, writing JSON, COPY, commit."""
    _empty(url)
    with connect(url) as conn:
        began = time.monotonic()
        items = ({"path": f"/a/file-{number}.txt"} for number in range(count))
        added = runner.enqueue_many(conn, items, type="noop")
        seconds = time.monotonic() - began
    if added != count:
        raise BenchError(f"enqueue_many added {added} of {count}")
    return count / seconds


def _written(url: str, seconds: float, notify: bool) -> float:
    """Tasks per second of all writers together, each a process."""
    arguments = [seconds, "on" if notify else "off"]
    return together(url, "bench.writer", [arguments] * WRITERS)[0] / seconds


@contextmanager
def _busy_fleet(place: Stage, url: str, notes: list[str]) -> Iterator[None]:
    """A fleet of which every worker runs a task, and which says so to enqueuers."""
    flag = place.directory / "hold"
    flag.touch()
    with fleet(place, url) as running:
        try:
            _occupy(running, flag, notes)
            yield
        finally:
            flag.unlink()


def _occupy(running: Fleet, flag: Path, notes: list[str]) -> None:
    # One more for each worker would be waiting if a claim took several at a time.
    items = [{"while": str(flag)}] * (PROCS * 2)
    runner.enqueue_many(running.conn, items, type="hold", priority=0)
    busy = "select count(*) >= %s from runner.task where state = 'running'"
    idle = "select coalesce(bool_or(idle), true) from runner.runner"

    def occupied() -> bool:
        row = running.conn.execute(busy, [PROCS]).fetchone()
        return running.witness.busy() >= PROCS and bool(row and row[0])

    def told() -> bool:
        row = running.conn.execute(idle).fetchone()
        return not (row and row[0])

    if not running.wait(occupied, PATIENCE_SECONDS):
        raise running.failure("the workers did not get busy")
    if not running.wait(told, 5.0):
        notes.append("the fleet says idle though all its workers are busy")


def _empty(url: str) -> None:
    with connect(url) as conn:
        conn.execute("truncate runner.task")
