"""One host whose clock is an hour off, between others whose clocks are right."""

import time

from chaos.clock import off_by
from chaos.scale.ground import LEASE_SECONDS, Found, Ground
from runner.store.passes import SWEPT

HOURS = (1, -1)
DUE_SECONDS = 2
LATER = """insert into runner.task (task_type, params, run_at)
           select 'quick', '{}', clock_timestamp() + make_interval(secs => %s)
           from generate_series(1, %s) returning task_id"""
EARLY = """select count(*) from effect e where task_id = any (%s)
           and at < %s::timestamptz"""
TOLD = (SWEPT, "killing")


def clocks(ground: Ground, tasks: int) -> Found:
    """The last host is an hour ahead, then an hour behind; fleets are stopped when this begins."""
    wrong: list[str] = []
    odd = ground.runners[-1]
    said_before = {path: path.stat().st_size for path in ground.made.directory.glob("*.log")}
    parts = []
    right = dict(odd.env)
    for hours in HOURS:
        odd.env = {**right, **off_by(hours)}
        ground.start()
        parts.append(_one(ground, tasks, wrong))
        ground.made.stop()
    odd.env = right
    told = b"".join(path.read_bytes()[size:] for path, size in said_before.items()).decode()
    wrong += [f"a log speaks of {word}" for word in TOLD if word in told]
    said = (
        f"the clock of {odd.name} an hour ahead, then behind: of {tasks} tasks each time it did"
        f" {parts[0]} and {parts[1]}; nothing early, nothing an hour early, no lease swept"
    )
    return Found(said, wrong + ground.faults())


def _one(ground: Ground, tasks: int, wrong: list[str]) -> int:
    """Work for all, some of it longer than a lease, some due soon, some due in half an hour; how much
    the odd host did."""
    odd = ground.runners[-1]
    row = ground.conn.execute(
        "select clock_timestamp() + make_interval(secs => %s)", [DUE_SECONDS]
    ).fetchone()
    assert row is not None
    due = row[0]
    soon = _later(ground, DUE_SECONDS, 20)
    far = _later(ground, 1800, 20)
    first = ground.add("late", len(ground.runners), seconds=LEASE_SECONDS * 1.2)[0]
    ground.add("slow", tasks, seconds=0.05)
    end = time.monotonic() + 60
    while not ground.shares(first)[odd.name] and time.monotonic() < end:
        if ground.left() < 40:
            ground.add("slow", tasks, seconds=0.05)
        time.sleep(0.05)
    ground.until(lambda: ground.left() <= len(far), "all that is due is done")
    early = ground.count(EARLY, soon, due)
    wrong += [f"{early} before they were due"] if early else []
    gone = len(far) - ground.left()
    wrong += [f"{gone} half an hour early"] if gone else []
    ground.conn.execute("delete from runner.task where task_id = any (%s)", [far])
    ground.added = [task for task in ground.added if task not in set(far)]
    return ground.shares(first)[odd.name]


def _later(ground: Ground, seconds: float, count: int) -> list[int]:
    ids = [int(row[0]) for row in ground.conn.execute(LATER, [seconds, count]).fetchall()]
    ground.added += ids
    return ids
