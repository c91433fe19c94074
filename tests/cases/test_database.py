"""Cases about the server: it restarts, has no room, keeps old rows, or hides behind a pooler."""

import time

import pytest

from tests import fleets
from tests.cases.aftermath import Scene
from tests.hurting import Hurt, reconnect
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]


# -- P-03 -----------------------------------------------------------------------------------------


def outages(hurt: tuple[Hurt, Scene], load: int, away_seconds: float) -> None:
    """Restarted fast while idle, at once while handlers are in the middle, and away for long under
    load: the same processes go on by themselves, each outage is told once."""
    server, scene = hurt
    work = scene.work
    with scene.fleet("--lease", "10s", "--renew", "1s", "--backoff", "200ms:1s") as fleet:
        workers = fleets.wait_registered(work, 4)

        def back(outage: int) -> None:
            server.start()
            reconnect(work)
            wait_until(lambda: fleet.log().count("database is back") == outage, 30)

        server.stop()
        back(1)
        tasks = work.add("slow", 8, seconds=0.5)
        wait_until(lambda: work.noted("start"), 20)
        server.crash()
        back(2)
        tasks += work.add("slow", load, seconds=0.02)
        wait_until(lambda: len(work.effects()) > load / 8, 60)
        server.crash()
        time.sleep(away_seconds)
        back(3)
        wait_until(work.empty, 100)
        wait_until(lambda: work.workers() == workers, why="the same processes")
        assert fleet.log().count("database is away") == 3
    work.exactly_once(tasks)


@pytest.mark.case("P-03")
def test_p03_the_database_restarts(hurt: tuple[Hurt, Scene]) -> None:
    outages(hurt, 200, 1.5)


@pytest.mark.case("P-03")
@pytest.mark.full
def test_p03_the_database_is_away_for_a_minute(hurt: tuple[Hurt, Scene]) -> None:
    outages(hurt, 1000, 60.0)
