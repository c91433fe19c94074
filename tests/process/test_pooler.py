"""P-26: a fleet behind PgBouncer in transaction mode says so, polls, and does everything once."""

from pathlib import Path

import pytest

from chaos.pooler import pooler
from tests import fleets, pooling
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db, pytest.mark.direct, pooling.needed]
HEARS = "select from pg_stat_activity where query ilike 'listen%' and datname = current_database()"


def test_two_hundred_tasks_through_one_server_connection(fresh: str, tmp_path: Path) -> None:
    with pooler(fresh, size=1) as through, fleets.work(fresh, tmp_path) as work:
        tasks = work.add("ordinary", 200)
        with fleets.running(through.url(), tmp_path, procs=4) as fleet:
            wait_until(work.empty, 30)
            late = work.add("ordinary", 5)  # found by polling
            wait_until(work.empty, 30)
            assert not work.conn.execute(HEARS).rowcount
            assert fleet.stop() == 0
        work.exactly_once([*tasks, *late])
        assert {fields[2] for fields in work.noted("start")} == {"1"}
        assert fleet.log().count("behind a transaction pooler") == 1
