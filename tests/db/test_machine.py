"""L1 in a short form and, with `-m full`, in a long one; there each guard of the SQL is
taken out once, too."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from runner.store import sql
from tests.db.machine import Machine
from tests.servers import Connection

pytestmark = pytest.mark.db

SHORT = settings(
    max_examples=int(os.environ.get("RUNNER_TEST_EXAMPLES", "25")),
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
LONG = settings(SHORT, max_examples=2000, stateful_step_count=50)
# What leads to no second claim of a task by the worker that had it before: without it the walk comes to one
# within some two hundred examples.
ASIDE = ("pause", "resume", "remove", "sweep", "time_passes", "renew", "crash")
# Enough to meet what a predicate is there for; nobody reads the example, so it need not be small.
HUNT = settings(
    SHORT, max_examples=1000, stateful_step_count=50, phases=(Phase.generate,),
    verbosity=Verbosity.quiet, print_blob=False,
)  # fmt: skip


def play(db: Connection, how: settings, *aside: str) -> None:
    """Walk by these settings, without the rules that are put aside."""
    here = type("Here", (Machine,), {"db": db, **dict.fromkeys(aside)})
    run_state_machine_as_test(here, settings=how)


def test_every_transition(db: Connection) -> None:
    play(db, SHORT)


@pytest.mark.full
@pytest.mark.timeout(3000)
def test_every_transition_for_long(db: Connection) -> None:
    play(db, LONG)


@contextmanager
def without(name: str, guard: str, instead: str = "") -> Iterator[None]:
    """The statement of this name without one of its guards."""
    text = sql._STATEMENTS[name]
    assert guard in text
    sql._STATEMENTS[name] = text.replace(guard, instead)
    sql.whole.cache_clear()
    try:
        yield
    finally:
        sql._STATEMENTS[name] = text
        sql.whole.cache_clear()


# The database draws by chance as well, so that what went wrong need not do so when it is played again.
NOTICED = (AssertionError, psycopg.IntegrityError, Flaky)
FENCE = " and fence = %(fence)s"
EACH_FENCE = " and r.fence = d.fence"
GUARDS = {
    "complete: owner and fence": ("complete", " and lease_owner = %(worker_id)s" + FENCE),
    "complete: fence": ("complete", FENCE),
    "end_claim: fence": ("end_claim", FENCE),
    "several at once: fence": ("claimed_rows", EACH_FENCE),
    "claim: a lease that holds": ("claim", " and lease_until > clock_timestamp()"),
    "claim: the attempt": ("claim", "attempt = t.attempt + 1, "),
    "claim: the fence grows": ("claim", "t.fence + 1", "0"),
    "promote: due": ("promote", " and run_at <= (select clock_timestamp())"),
    "requeue: only what does not run": ("requeue", " and state = any (%(states)s::text[])"),
}


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_taken_out_is_missed(name: str, db: Connection) -> None:
    """The fence is tried beside the owner: one worker that is given the same task twice."""
    aside = ASIDE if name.endswith("fence") else ()
    with without(*GUARDS[name]), pytest.raises(NOTICED):
        play(db, HUNT, *aside)
