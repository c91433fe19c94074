"""The times that follow from a lease, and which worker serves which queue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config import FleetConfig, Queue, available_cpus
from runner.errors import UsageError


def fleet(**options: object) -> FleetConfig:
    return FleetConfig("postgresql://u:secret@h/d", "tasks", **options)  # type: ignore[arg-type]


def test_times_of_the_default_lease() -> None:
    it = fleet()
    assert (it.lease_seconds, it.renew_every, it.margin, it.usable) == (30, 5, 3, 27)
    assert it.kill_grace == 2
    assert it.claim_seconds == 2
    assert it.renewal_seconds == 3


def test_times_of_the_shortest_lease() -> None:
    it = fleet(lease_seconds=3.0)
    assert (it.renew_every, it.margin, it.usable) == (0.5, 1, 2)
    assert it.kill_grace == pytest.approx(2 / 3)
    assert it.claim_seconds == 1
    assert it.renewal_seconds == pytest.approx(2 / 3)


@given(st.floats(3, 1e6), st.floats(0.01, 1 / 3))
def test_every_lease_leaves_room(lease: float, share: float) -> None:
    it = fleet(lease_seconds=lease, renew_seconds=lease * share)
    # A renewal that is sent on time and takes as long as it may comes before TERM would be sent.
    assert it.usable > 0
    assert it.renewal_seconds + it.kill_grace < it.usable
    assert it.claim_seconds <= it.usable / 2
    assert it.renew_every <= lease / 3


@pytest.mark.parametrize("lease", [2.99, 0, -1, float("nan"), float("-inf")])
def test_too_short_a_lease(lease: float) -> None:
    with pytest.raises(UsageError):
        fleet(lease_seconds=lease)


@pytest.mark.parametrize("renew", [0, -1, 10.01, 30, float("nan"), float("inf")])
def test_a_renewal_that_cannot_keep_the_lease(renew: float) -> None:
    with pytest.raises(UsageError, match="--renew"):
        fleet(renew_seconds=renew)
    fleet(renew_seconds=10.0)


def test_the_url_is_not_shown() -> None:
    assert "secret" not in repr(fleet())


def test_without_queues_every_worker_serves_all() -> None:
    it = fleet(procs=3)
    assert [it.queues_of_slot(slot) for slot in range(3)] == [None] * 3


def test_queues_with_and_without_workers_of_their_own() -> None:
    queues = (Queue("rest"), Queue("mail", 2), Queue("more"), Queue("reports", 1))
    it = fleet(procs=5, queues=queues)
    found = [it.queues_of_slot(slot) for slot in range(5)]
    assert found == [("mail",), ("mail",), ("reports",), ("rest", "more"), ("rest", "more")]


def test_more_workers_of_their_own_than_there_are() -> None:
    with pytest.raises(UsageError, match="asks for 3 workers"):
        fleet(procs=2, queues=(Queue("mail", 3),))


def test_queues_without_a_worker() -> None:
    with pytest.raises(UsageError, match="no worker is left"):
        fleet(procs=2, queues=(Queue("mail", 2), Queue("rest")))


def test_a_worker_beyond_the_queues_serves_none_and_not_all() -> None:
    it = fleet(procs=3, queues=(Queue("mail", 1),))
    assert [it.queues_of_slot(slot) for slot in range(3)] == [("mail",), (), ()]


def test_cpus_are_at_least_one() -> None:
    assert available_cpus() >= 1
