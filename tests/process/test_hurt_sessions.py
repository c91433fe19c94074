"""A worker's session in which a handler has left what nobody could see."""

from pathlib import Path

import pytest

from tests import fleets
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
# In a trigger, so that no statement tells of it, and at the COMMIT, behind the completion.
FUNCTION = """
create function hurt() returns trigger language plpgsql as
    $$ begin deallocate all; return null; end $$
"""
TRIGGER = """
create constraint trigger hurt after insert on effect deferrable initially deferred
    for each row execute function hurt()
"""


def test_a_worker_that_cannot_claim_any_more_puts_its_session_back(
    fresh: str, tmp_path: Path
) -> None:
    with fleets.work(fresh, tmp_path) as work, fleets.running(fresh, tmp_path, procs=1) as fleet:
        ids = work.add("ordinary")
        wait_until(work.empty, 30)
        workers = fleets.wait_registered(work, 1)
        work.conn.execute(FUNCTION)
        work.conn.execute(TRIGGER)
        ids += work.add("ordinary")
        wait_until(work.empty, 30)
        work.conn.execute("drop trigger hurt on effect")
        ids += work.add("ordinary", 3)
        wait_until(work.empty, 30)
        work.exactly_once(ids)
        assert fleets.wait_registered(work, 1) == workers  # and needs nobody else for it
        assert fleet.stop() == 0
    assert {fields[2] for fields in work.noted("start")} == {"1"}
