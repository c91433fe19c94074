"""A server that lets everybody in, and cannot write: its disk is full."""

import time
from pathlib import Path

import pytest

from tests import fleets
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
# A sequence counts what is rolled back, too.
FULL = """create sequence refused;
          grant all on sequence refused to public;
          create function no_room() returns trigger language plpgsql as $$
              begin
                  perform nextval('public.refused');
                  raise 'no space left on device' using errcode = 'disk_full';
              end $$;
          create trigger no_room before insert on runner.worker
              for each row execute function no_room()"""
PROCS, SECONDS = 2, 3.0
# Pauses of at least 0.05, 0.1, 0.2, 0.4, 0.8, 1.6 s, each after a refusal; a storm is of hundreds.
MOST = 7 * PROCS


def test_who_cannot_be_written_down_tries_less_and_less_often(fresh: str, tmp_path: Path) -> None:
    """Connecting works, registering does not: as with a database that is away, nobody storms it."""
    with fleets.work(fresh, tmp_path) as work:
        work.conn.execute(FULL)

        def refused() -> int:
            row = work.conn.execute("select last_value from refused where is_called").fetchone()
            return int(row[0]) if row else 0

        with fleets.running(fresh, tmp_path, procs=PROCS) as fleet:
            wait_until(refused, 20)
            time.sleep(SECONDS)  # what is bounded is how much happens in a time
            assert PROCS < refused() <= MOST
            told = "cannot join: DiskFull: no space left on device"
            wait_until(lambda: fleet.log().count(told) >= PROCS, 20, "told by each")
            work.conn.execute("drop trigger no_room on runner.worker")
            fleets.wait_registered(work, PROCS)
            tasks = work.add("ordinary", 3)
            wait_until(work.empty, 20)
            assert fleet.log().count(told) == PROCS
        work.exactly_once(tasks)
