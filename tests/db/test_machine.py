"""L1 in a short form and, with `-m full`, in a long one; there each guard of the SQL is
taken out once, too."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import RULE_MARKER, run_state_machine_as_test

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
# Enough to meet what a predicate is there for; nobody reads the example, so it need not be small.
HUNT = settings(
    SHORT, max_examples=1000, stateful_step_count=50, phases=(Phase.generate,),
    verbosity=Verbosity.quiet, print_blob=False,
)  # fmt: skip
QUICK = settings(HUNT, max_examples=10)


def play(db: Connection, how: settings, only: Collection[str] = ()) -> None:
    """Walk by these settings; by these rules alone, if there are any."""
    rules = {name for name, one in vars(Machine).items() if hasattr(one, RULE_MARKER)}
    assert rules.issuperset(only)
    aside = rules.difference(only) if only else ()
    here = type("Here", (Machine,), {"db": db, **dict.fromkeys(aside)})
    run_state_machine_as_test(here, settings=how)


def test_every_transition(db: Connection) -> None:
    play(db, SHORT)


@pytest.mark.full
@pytest.mark.timeout(3000)
@pytest.mark.skipif(
    os.environ.get("RUNNER_TEST_PG") == "system", reason="once, on the embedded one"
)
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
EACH_FENCE = (
    "\nand t.fence = (%(done_fences)s::bigint[])[array_position(%(done)s::bigint[], t.task_id)]"
)
BASE = ("register", "enqueue", "claim")
AGAIN = (*BASE, "hand_back")  # to the worker that had it before
COMPLETE = "complete"
# What is taken out, what stands there instead, and the rules by which the walk comes to it soon.
GUARDS = {
    "complete: owner and fence": (
        (COMPLETE, " and lease_owner = %(worker_id)s" + FENCE), (*AGAIN, COMPLETE),
    ),
    "complete: fence": ((COMPLETE, FENCE), (*AGAIN, COMPLETE)),
    "end_claim: fence": (("end_claim", FENCE), (*AGAIN, "end")),
    "complete_group: fence": (("these_claims", EACH_FENCE), (*AGAIN, "complete_as_a_group")),
    "delete_done: fence": (("these_claims", EACH_FENCE), (*AGAIN, "delete_done")),
    "hand_back: fence": (("these_claims", EACH_FENCE), AGAIN),
    "claim: a lease that holds": (
        ("claim", " and lease_until > clock_timestamp()"), (*BASE, "clock_jumps"),
    ),
    "claim: the attempt": (("claim", "attempt = t.attempt + 1, "), BASE),
    "claim: the fence grows": (
        ("claim", "t.fence + 1", "0"), (*AGAIN, "clock_jumps", "renew"),
    ),
    "promote: due": (
        ("promote", " and run_at <= (select clock_timestamp())"), ("enqueue", "promote"),
    ),
    "requeue: only what does not run": (
        ("requeue", " and state = any (%(states)s::text[])"), (*BASE, "requeue"),
    ),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_taken_out_is_missed(name: str, db: Connection) -> None:
    """The fence is tried beside the owner: one worker that is given the same task twice."""
    guard, rules = GUARDS[name]
    play(db, QUICK, rules)
    with without(*guard), pytest.raises(NOTICED):
        play(db, HUNT, rules)
