"""No type can block the others of its class: waits are counted in claims, beside the plain query's."""

from collections.abc import Callable
from statistics import median

import pytest

from tests.db.stage import Claimer, add
from tests.servers import Connection

pytestmark = pytest.mark.db

# The statement of the comment in claim.sql, without its LIMIT: the order in which it would take the rows
# one by one, each at random among those of the class that are left.
REFERENCE = """
    select task_type from runner.task where state = 'ready'
    order by case task_type when 'unlikely' then 1 else priority end, random()"""


def waits(next_type: Callable[[], str], few: int) -> list[int]:
    """After how many claims each of the few was taken, until more than half of them were."""
    found, claims = [], 0
    while len(found) <= few // 2:
        claims += 1
        if next_type() == "few":
            found.append(claims)
    # Those left wait longer still, so the middle of all is the last of these or the one before.
    return found + [claims + 1] * (few - len(found))


def fill(db: Connection, flood: int, few: int, flood_is_older: bool) -> None:
    """One class, two types; what comes later has the later strata."""
    db.execute("delete from runner.task")
    older, newer = ("flood", "few") if flood_is_older else ("few", "flood")
    counts = {"flood": flood, "few": few}
    for ago, task_type in ((3600, older), (600, newer)):
        query = "update runner.task set shuffle = shuffle - %s / 2 where task_type = %s"
        add(db, task_type, counts[task_type])
        db.execute(query, [ago, task_type])
    db.execute("analyze runner.task")


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("flood_is_older", [True, False], ids=["flood first", "flood later"])
@pytest.mark.parametrize(
    ("flood", "few"), [(400, 40), pytest.param(20_000, 100, marks=pytest.mark.full)]
)
def test_a_flood_of_one_type_does_not_hold_up_the_other(
    db: Connection, flood: int, few: int, flood_is_older: bool, workers: int
) -> None:
    """C4: the median wait of the few is at most twice that of the reference query."""
    fill(db, flood, few, flood_is_older)

    order = iter(db.execute(REFERENCE).fetchall())
    by_reference = median(waits(lambda: str(next(order)[0]), few))
    fill(db, flood, few, flood_is_older)
    claimers = [Claimer(db, "flood", "few").look_around() for _ in range(workers)]
    turn = 0

    def ours() -> str:
        nonlocal turn
        turn += 1
        claimer = claimers[turn % workers]
        (row,) = claimer.claim()
        claimer.places.took(row.kind, row.shuffle, row.shuffle, row.shuffle // 1)
        return row.task_type

    assert median(waits(ours, few)) <= 2 * by_reference


def test_within_a_type_the_wait_is_bounded(db: Connection) -> None:
    """Random among what arrived together, roughly oldest first beyond: nothing waits for ever."""
    for _ in range(3):
        db.execute("update runner.task set shuffle = shuffle - 10")
        add(db, count=5)
    claimer = Claimer(db, "t").look_around()
    rows = [claimer.claim(full=True)[0] for _ in range(15)]
    strata = [int(row.shuffle) for row in rows]
    assert strata == sorted(strata)
    assert [row.task_id for row in rows] != sorted(row.task_id for row in rows)
