"""When a drain is through: histories of looks, ends, deaths and promotions."""

from typing import Any

from runner.config import FleetConfig
from runner.supervisor.child import Child, Work
from runner.supervisor.goals import AWAY_SECONDS, RunForever, RunUntilDrained, View
from runner.supervisor.role import Role

WORKER = Role("worker", lambda seat, ends: 0, holds_leases=True)
CONFIG = FleetConfig("postgresql://h/d", "tasks")


def worker(
    look: float = 0.0, *, idle: bool = True, task: int = 0, registered: bool = True
) -> Child:
    child = Child(WORKER, 0, 1, 1, started_at=0.0, heard_at=0.0, registered=registered)
    child.idle, child.idle_look = idle and not task, look
    if task:
        child.work = Work(task, task, 0.0, None)
    return child


def drain(**options: Any) -> RunUntilDrained:
    return RunUntilDrained(procs=4, first_workers=1, **options)


def reason(goal: RunUntilDrained, *workers: Child, **view: Any) -> str | None:
    return goal.reason_to_end(View(workers=workers, **{"now": 100.0, **view}))


def test_one_empty_full_look_of_everybody_is_the_end() -> None:
    assert reason(drain(), worker(1.0), worker(2.0)) == "drained"


def test_one_empty_look_is_no_end_while_another_has_not_looked() -> None:
    assert reason(drain(), worker(1.0), worker(0.0)) is None
    assert reason(drain(), worker(1.0), worker(0.0, idle=False)) is None


def test_nobody_there_is_no_end() -> None:
    assert reason(drain()) is None


def test_a_finish_after_a_look_needs_a_new_look() -> None:
    busy, other = worker(task=1), worker(5.0)
    assert reason(drain(), busy, other) is None
    # It ends at 7 and finds nothing at 8; but it may have enqueued something that `other` must see.
    assert reason(drain(), worker(8.0), other, changed_at=7.0) is None
    assert reason(drain(), worker(8.0), worker(7.5), changed_at=7.0) == "drained"


def test_a_look_begun_at_the_very_time_of_a_change_proves_nothing() -> None:
    assert reason(drain(), worker(7.0), changed_at=7.0) is None


def test_a_task_in_work_or_to_be_settled_holds_the_end() -> None:
    assert reason(drain(), worker(5.0), worker(5.0, task=3)) is None
    assert reason(drain(), worker(5.0), unsettled=1) is None


def test_who_was_sent_off_may_still_be_at_its_last_task() -> None:
    assert reason(drain(), worker(5.0), leaving=1) is None
    assert reason(drain(max_tasks=3), worker(5.0), leaving=1, starts=3) is None
    assert reason(drain(max_seconds=9.0), worker(5.0), leaving=1) == "max-time"


def test_a_worker_started_anew_must_look_first() -> None:
    assert reason(drain(), worker(5.0), worker(0.0, registered=False, idle=False)) is None


def test_a_claim_that_has_not_begun_holds_the_end() -> None:
    """Between CLAIMED and STARTED, an old look still stands; a stop now would leave that task."""
    claimed = worker(8.0, idle=False)
    assert reason(drain(), claimed, worker(8.0), changed_at=7.0) is None


def test_linger_waits_after_the_last_change() -> None:
    goal = drain(linger_seconds=10.0)
    seen = {"changed_at": 50.0, "started_at": 20.0}
    assert reason(goal, worker(51.0), now=59.9, **seen) is None
    assert reason(goal, worker(51.0), now=60.0, **seen) == "drained"


def test_linger_counts_from_the_start_where_nothing_ever_happened() -> None:
    goal = drain(linger_seconds=10.0)
    assert reason(goal, worker(21.0), now=29.0, started_at=20.0) is None
    assert reason(goal, worker(21.0), now=30.0, started_at=20.0) == "drained"


def test_max_time_ends_even_a_busy_drain() -> None:
    goal = drain(max_seconds=50.0)
    assert reason(goal, worker(task=1), now=69.9, started_at=20.0) is None
    assert reason(goal, worker(task=1), now=70.0, started_at=20.0) == "max-time"


def test_max_tasks_ends_when_the_last_begun_is_through() -> None:
    goal = drain(max_tasks=3)
    assert reason(goal, worker(idle=False), starts=2) is None
    assert reason(goal, worker(task=3), starts=3) is None
    assert reason(goal, worker(idle=False), starts=3, unsettled=1) is None
    assert reason(goal, worker(idle=False), starts=3) == "max-tasks"


def test_a_database_that_stays_away_ends_it() -> None:
    since = {"database_away_since": 100.0}
    assert reason(drain(), worker(task=1), now=100 + AWAY_SECONDS - 1, **since) is None
    assert reason(drain(), worker(task=1), now=100 + AWAY_SECONDS, **since) == "database"


def wanted(goal: RunUntilDrained, *workers: Child, backlog: int = 0) -> int:
    return goal.workers_wanted(View(workers=workers, backlog=backlog))


def test_starts_as_many_as_there_is_work_for() -> None:
    assert wanted(RunUntilDrained(4, 2)) == 2
    assert wanted(RunUntilDrained(4, 100)) == 4


def test_grows_when_work_waits_and_nobody_idles() -> None:
    goal = drain()
    assert wanted(goal) == 1
    assert wanted(goal, worker(idle=True), backlog=9) == 1
    assert wanted(goal, worker(task=1), backlog=0) == 1
    assert wanted(goal, worker(task=1), backlog=2) == 3
    # The two that come are not there yet.
    assert wanted(goal, worker(task=1), backlog=9) == 3
    coming = worker(idle=False, registered=False)
    assert wanted(goal, worker(task=1), worker(task=2), coming, backlog=9) == 3
    assert wanted(goal, *(worker(task=n) for n in (1, 2, 3)), backlog=9) == 4


def test_never_shrinks_below_what_it_has() -> None:
    goal = drain()
    wanted(goal, worker(task=1), backlog=3)
    assert wanted(goal, worker(5.0), backlog=0) == 4


def test_a_fleet_goes_on_for_ever() -> None:
    goal = RunForever(3)
    view = View(workers=[worker(1e9)], now=1e9)
    assert goal.workers_wanted(view) == 3
    assert goal.reason_to_end(view) is None
