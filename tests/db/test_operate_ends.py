"""`explain` of what died or is gone, against the truth in the database."""

from typing import Any

import psycopg
import pytest

from runner.store import operate
from tests.db.stage import add, announce, one
from tests.db.test_operate_explain import change, iso, told
from tests.servers import Connection

pytestmark = pytest.mark.db


@pytest.mark.parametrize(
    ("cause", "error", "attempt", "reason"),
    [
        ("ValueError", "ValueError: x", 5, "attempts"),
        ("Discard", "Discard: no use", 1, "discarded"),
        ("ValueError", "ValueError: x", 1, "final"),
        ("interrupted too often, last: lease lost", None, 2, "interrupted"),
        ("SIGSEGV", None, 5, "signal"),
        ("exit code 3", None, 5, "exit"),
        ("time limit", None, 5, "time limit"),
        ("lease expired", None, 5, "lease expired"),
        (None, None, 0, "dead"),
    ],
)
def test_dead_says_of_what(
    db: Connection, cause: str | None, error: str | None, attempt: int, reason: str
) -> None:
    columns: dict[str, Any] = {"cause": cause, "last_error": error, "attempt": attempt}
    (task,) = add(db, state="dead", max_attempts=5, **columns)
    announce(db, "t")
    assert told(db, task).reason == reason
    assert (error or cause or "").removeprefix("Discard: ").split(", ")[0] in told(
        db, task
    ).sentence


def test_gone_cancelled_discarded_never_issued(db: Connection) -> None:
    done, cancelled, dead = add(db, count=3)
    change(db, dead, "state = 'dead'")
    db.execute("delete from runner.task where task_id = %s", [done])
    operate.remover("cancelled", "me")(db, [cancelled], operate.EVERY_STATE)
    operate.remover("discarded", "me")(db, [dead], ["dead"])
    last = one(db, "select last_value from runner.task_task_id_seq")
    assert told(db, done).reason == "gone"
    for task, how in ((cancelled, "cancelled"), (dead, "discarded")):
        who, at = db.execute(
            "select who, at from runner.removed where task_id = %s", [task]
        ).fetchone() or ("", "")
        assert who == f"me ({db.info.user})"
        assert told(db, task).sentence == f"task {task} was {how} by {who} at {iso(at)}"
    assert told(db, last).reason != "never issued"
    assert told(db, last + 1).reason == "never issued"
    with db.transaction(force_rollback=True):
        (rolled_back,) = add(db)
    assert told(db, rolled_back).reason == "gone"


def test_a_role_that_may_not_see_the_sequence(db: Connection, db_url: str) -> None:
    """Then what was never issued cannot be told from what is done."""
    db.execute("drop role if exists looker")
    db.execute("create role looker")
    try:
        db.execute("grant usage on schema runner to looker")
        db.execute("grant select on all tables in schema runner to looker")
        with psycopg.connect(db_url, autocommit=True) as conn:
            conn.execute("set role looker")
            assert told(conn, 2**62).reason == "gone"
    finally:
        db.execute("drop owned by looker")
        db.execute("drop role looker")
