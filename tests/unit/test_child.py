"""Histories fed to a Child with a fake clock: when it is due to die, and what its death means."""

from dataclasses import replace

import pytest

from runner.config import HARD_LIMIT_SECONDS, FleetConfig
from runner.supervisor.child import Child, Doom, Replaced, Stop, Why
from runner.supervisor.role import Role
from runner.wire import NO_ID, Event, How, Kind, Outcome

CONFIG = FleetConfig("postgresql://h/d", "tasks")  # L 30, M 3, kill_grace 2, grace 25
WORKER = Role("worker", lambda seat, ends: 0, holds_leases=True)
RENEWER = Role("renewer", lambda seat, ends: 0, silent_seconds=11.0)
NEVER = float("inf")
ID, NEW_ID = b"a" * 16, b"b" * 16


class History:
    """A child and the events that it sends, one after the other."""

    def __init__(self, role: Role = WORKER, at: float = 100.0) -> None:
        self.child = Child(role, 3, 7, 4711, started_at=at, heard_at=at)

    def hears(self, moment: float, kind: Kind, /, **fields: object) -> "History":
        self.child.hear(Event(kind, 7, **fields), moment)  # type: ignore[arg-type]
        return self

    def ready(self, at: float = 101.0) -> "History":
        return self.hears(at, Kind.HELLO, worker=ID).hears(at, Kind.REGISTERED, worker=ID)

    def working(self, at: float = 110.0, limit_at: float = 0.0) -> "History":
        self.ready()
        self.child.deadline = 137.0
        self.hears(at, Kind.CLAIMED, task=5, fence=50)
        return self.hears(at, Kind.STARTED, task=5, fence=50, at=limit_at)

    def doom(self, now: float = 120.0, stop: Stop | None = None, **options: object) -> Doom:
        config = replace(CONFIG, **options)  # type: ignore[arg-type]
        return self.child.doom(now, config, stop)


def test_before_hello_it_has_the_boot_timeout() -> None:
    assert History().doom() == Doom(NEVER, 100 + CONFIG.boot_timeout_seconds, Why.BOOT)


def test_an_idle_child_must_not_be_silent() -> None:
    history = History().ready(101.0)
    assert history.doom() == Doom(NEVER, 131.0, Why.SILENT)
    history.hears(125.0, Kind.ALIVE)
    assert history.doom() == Doom(NEVER, 155.0, Why.SILENT)
    renewer = History(RENEWER).hears(101.0, Kind.HELLO)
    assert renewer.doom() == Doom(NEVER, 112.0, Why.SILENT)


def test_a_busy_worker_dies_with_its_lease_and_not_of_silence() -> None:
    history = History().working()
    assert history.doom(now=120.0) == Doom(135.0, 137.0, Why.LEASE)
    history.child.deadline = 5000.0
    assert history.doom(now=4900.0) == Doom(4998.0, 5000.0, Why.LEASE)


def test_no_kill_is_the_control_arm() -> None:
    doom = History().working().doom(unsafe=frozenset({"no-kill"}))
    assert doom.kill_at == NEVER


def test_the_time_limit_asks_first() -> None:
    doom = History().working(limit_at=115.0).doom()
    assert doom == Doom(115.0, 115.0 + HARD_LIMIT_SECONDS, Why.LIMIT)


def test_the_lease_comes_before_a_later_limit() -> None:
    history = History().working(limit_at=133.0)
    assert history.doom().why is Why.LEASE
    history.child.deadline = 200.0
    assert history.doom().why is Why.LIMIT


def test_ending_protects_from_the_limit_but_not_from_the_lease() -> None:
    history = History().working(limit_at=115.0).hears(114.9, Kind.ENDING, task=5, fence=50)
    assert history.doom() == Doom(135.0, 137.0, Why.LEASE)


def test_the_ending_of_another_claim_protects_nothing() -> None:
    history = History().working(limit_at=115.0).hears(114.0, Kind.ENDING, task=5, fence=49)
    assert history.doom().why is Why.LIMIT


def test_the_end_of_another_claim_ends_nothing() -> None:
    history = History().working().hears(114.0, Kind.FINISHED, task=5, fence=49, flag=Outcome.OK)
    assert history.child.work is not None
    history.hears(114.0, Kind.FINISHED, task=5, fence=50, flag=Outcome.OK)
    assert history.child.work is None
    assert history.doom().why is Why.SILENT


def test_a_new_task_forgets_the_ending_and_the_taking_of_the_one_before() -> None:
    history = History().working(limit_at=115.0).hears(114.0, Kind.ENDING, task=5, fence=50)
    history.child.taken = True
    history.hears(114.5, Kind.FINISHED, task=5, fence=50)
    history.hears(115.0, Kind.STARTED, task=6, fence=60, at=118.0)
    assert history.child.taken is False
    assert history.doom() == Doom(118.0, 118.0 + HARD_LIMIT_SECONDS, Why.LIMIT)


def test_a_task_that_was_taken_away_ends_at_once() -> None:
    history = History().working()
    history.child.taken = True
    assert history.doom(now=120.0) == Doom(120.0, 120.0, Why.TAKEN)


STOP = Stop(at=110.0)


def test_a_stop_gives_the_grace_and_then_a_little_more() -> None:
    history = History().working()
    history.child.deadline = 1000.0
    history.child.stopping = True
    assert history.doom(stop=STOP) == Doom(135.0, 137.0, Why.STOP)


def test_a_stop_that_the_child_was_not_told_of_does_not_count() -> None:
    history = History().working()
    history.child.deadline = 1000.0
    assert history.doom(stop=STOP).why is Why.LEASE


def test_a_forced_stop_is_short() -> None:
    history = History().working()
    history.child.stopping = True
    assert history.doom(stop=Stop(110.0, forced_at=112.0)) == Doom(112.0, 112.5, Why.STOP)


def test_a_stop_does_not_lengthen_a_lease_or_a_limit() -> None:
    history = History().working(limit_at=111.0)
    history.child.stopping = True
    assert history.doom(stop=STOP).why is Why.LIMIT
    history.hears(111.0, Kind.ENDING, task=5, fence=50)
    history.child.deadline = 136.0
    assert history.doom(stop=STOP).why is Why.LEASE


@pytest.mark.parametrize("stopping", [False, True])
def test_whatever_happens_some_end_is_set(stopping: bool) -> None:
    """No part hangs silently: with a lease or a limit, or by silence, each state has an end."""
    histories = [
        History(),
        History().ready(),
        History().working(),
        History().working(limit_at=115.0),
        History().working().hears(115.0, Kind.ENDING, task=5, fence=50),
        # Its connection is lost while it ends a claim: it says HELLO again and hangs.
        History()
        .working()
        .hears(115.0, Kind.ENDING, task=5, fence=50)
        .hears(116.0, Kind.HELLO, worker=NEW_ID),
        History().ready().hears(103.0, Kind.HELLO, worker=NEW_ID),
        History(RENEWER).hears(101.0, Kind.HELLO),
    ]
    for history in histories:
        history.child.stopping = stopping
        assert history.doom(stop=STOP).kill_at < 1000.0


def test_a_new_identity_begins_without_a_lease() -> None:
    history = History().working().hears(120.0, Kind.HELLO, worker=NEW_ID)
    child = history.child
    assert (child.worker, child.former) == (NEW_ID, [ID])
    assert not child.registered
    assert child.deadline is None
    history.hears(121.0, Kind.REGISTERED, worker=NEW_ID)
    assert (child.former, child.work, child.registered) == ([], None, True)
    assert child.hello_at == 101.0


def test_what_a_former_identity_was_through_with_is_deleted_by_its_settle() -> None:
    history = History().ready().hears(105.0, Kind.DONE, task=5, fence=50)
    history.hears(120.0, Kind.HELLO, worker=NEW_ID)
    assert list(history.child.done_tasks) == [(5, 50)]
    assert not history.hears(121.0, Kind.REGISTERED, worker=NEW_ID).child.done_tasks


def test_two_claims_with_one_fence_are_told_apart() -> None:
    """Of a batch that was claimed within a microsecond."""
    history = History().working(limit_at=115.0).hears(114.0, Kind.ENDING, task=6, fence=50)
    assert history.doom().why is Why.LIMIT


def test_two_identities_lost_before_one_is_registered_are_both_remembered() -> None:
    history = History().working()
    history.hears(120.0, Kind.HELLO, worker=NEW_ID).hears(121.0, Kind.HELLO, worker=b"c" * 16)
    assert history.child.former == [ID, NEW_ID]


def test_the_first_hello_may_come_without_an_identity() -> None:
    child = History().hears(101.0, Kind.HELLO).hears(102.0, Kind.HELLO, worker=ID).child
    assert (child.worker, child.former) == (ID, [])
    assert History().child.worker == NO_ID


def test_idle_means_holding_nothing_after_a_look() -> None:
    history = History().ready()
    assert not history.child.idle
    history.hears(105.0, Kind.IDLE, at=104.0, flag=0)
    assert history.child.idle
    assert history.child.idle_look == 0.0  # that look was not full
    history.hears(106.0, Kind.IDLE, at=105.5, flag=1)
    assert history.child.idle_look == 105.5
    history.hears(107.0, Kind.IDLE, at=106.5, flag=0)
    assert history.child.idle_look == 105.5
    assert not history.hears(108.0, Kind.CLAIMED, task=1, fence=2).child.idle
    assert not history.hears(108.0, Kind.STARTED, task=1, fence=2).child.idle


def test_a_refusal_is_remembered() -> None:
    assert History().hears(101.0, Kind.REFUSED, flag=78).child.refused == 78


@pytest.mark.parametrize(
    ("term_for", "kill_for", "timer", "how"),
    [
        (None, None, False, How.DIED),  # a crash, or the out-of-memory killer
        (None, None, True, How.LEASE_LOST),  # the kernel's timer was faster than we
        (Why.LEASE, None, False, How.LEASE_LOST),
        (Why.LEASE, Why.LEASE, False, How.LEASE_LOST),
        (None, Why.TAKEN, False, How.LEASE_LOST),
        (Why.LIMIT, None, False, How.DIED),
        (Why.LIMIT, Why.LIMIT, False, How.DIED),
        (Why.LIMIT, Why.LEASE, False, How.LEASE_LOST),
        (Why.STOP, None, False, How.STOPPED),
        (Why.STOP, Why.STOP, False, How.STOPPED),
        (Why.LIMIT, Why.STOP, False, How.STOPPED),
        (Why.STOP, Why.LIMIT, False, How.DIED),
        (None, Why.SILENT, False, How.DIED),
        (None, Why.BOOT, False, How.DIED),
    ],
)
def test_how_it_ended(term_for: Why | None, kill_for: Why | None, timer: bool, how: How) -> None:
    child = History().working().child
    child.term_for, child.kill_for = term_for, kill_for
    assert child.deadline is not None
    assert child.how_it_ended(child.deadline + 0.01, killed_by_timer=timer) is how


def test_a_kill_before_the_deadline_was_not_the_timer() -> None:
    child = History().working().child
    assert child.how_it_ended(136.99, killed_by_timer=True) is How.DIED
    child.deadline = None
    assert child.how_it_ended(1000.0, killed_by_timer=True) is How.DIED


def test_a_term_for_the_task_before_says_nothing_of_this_one() -> None:
    history = History().working(limit_at=115.0)
    history.child.term_for = Why.LEASE
    history.hears(116.0, Kind.FINISHED, task=5, fence=50)
    history.hears(117.0, Kind.STARTED, task=6, fence=60)
    assert history.child.how_it_ended(118.0, killed_by_timer=False) is How.DIED


def test_names() -> None:
    assert History().child.name == "worker 3"
    assert History(RENEWER).child.name == "renewer"


def test_a_worker_that_could_not_hear_its_extension() -> None:
    """Killed by its timer at a deadline that was extended: the lease is to blame, not memory."""
    child = Child(WORKER, 0, 1, 1, started_at=0.0, heard_at=0.0)
    child.replaced.extend([Replaced(12.0, 2.0), Replaced(17.0, 7.0)])
    child.deadline = 22.0
    assert child.how_it_ended(12.05, True) is How.LEASE_LOST
    assert child.how_it_ended(17.1, True) is How.LEASE_LOST
    assert child.how_it_ended(15.0, True) is How.DIED
    assert child.how_it_ended(12.05, False) is How.DIED
    assert child.how_it_ended(22.0, True) is How.LEASE_LOST


def test_killed_at_a_deadline_that_its_task_never_had() -> None:
    """The extension was heard before the task began: the kill is somebody else's, and charged."""
    history = History().working(at=110.0)
    history.child.replaced.append(Replaced(112.0, 90.0))
    history.child.replaced.append(Replaced(117.0, 111.0))
    assert history.child.how_it_ended(112.05, True) is How.DIED
    assert history.child.how_it_ended(117.05, True) is How.LEASE_LOST


def test_whose_handler_was_over_before_it_ended() -> None:
    """Its connection was lost, and it ended under the next identity: that is no fault of the task."""
    history = History().working()
    history.hears(111.0, Kind.HELLO, worker=bytes([9] * 16))
    assert history.child.how_it_ended(112.0, killed_by_timer=False) is How.DISCONNECTED
    history.child.term_for = Why.STOP
    assert history.child.how_it_ended(112.0, killed_by_timer=False) is How.DISCONNECTED
    history.hears(113.0, Kind.REGISTERED)
    history.hears(114.0, Kind.STARTED, task=6, fence=60)
    history.child.term_for = None
    assert history.child.how_it_ended(115.0, killed_by_timer=False) is How.DIED


def test_who_waits_for_the_commit_before_is_not_charged() -> None:
    """Its handler is over: a death then is no fault of its own. Once that COMMIT is told of, it is."""
    history = History().ready()
    for task in (1, 2):
        history.hears(110.0, Kind.STARTED, task=task, fence=task)
        history.hears(111.0, Kind.ENDING, task=task, fence=task)
    child = history.child
    assert child.sent is not None
    assert child.how_it_ended(118.0, killed_by_timer=False) is How.DISCONNECTED
    history.hears(112.0, Kind.FINISHED, task=1, fence=1)
    assert child.sent is None
    assert child.work is not None
    assert child.how_it_ended(118.0, killed_by_timer=False) is How.DIED
