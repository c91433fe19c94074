"""Cases about NOTIFY, which is a hint: the poll is the truth."""

import time

import pytest

from tests import fleets, servers
from tests.cases.aftermath import Scene
from tests.hurting import Hurt
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
LISTENER = "select pid from pg_stat_activity where application_name = 'runner listener'"


def deaf(scene: Scene, seconds: float) -> None:
    """The server's process behind the LISTEN connection stands still: no notification, no error, no
    end of file. Tasks are found by the poll all the while; afterwards notifications are heard again."""
    work = scene.work
    with scene.fleet("--poll", "500ms", procs=2) as fleet:
        workers = fleets.wait_registered(work, 2)
        wait_until(lambda: work.conn.execute(LISTENER).fetchone(), 20)
        tasks = []
        ((listener,),) = work.conn.execute(LISTENER).fetchall()
        with servers.stopped(listener):
            end = time.monotonic() + seconds
            while not tasks or time.monotonic() < end:
                tasks += work.add("ordinary")
                wait_until(work.empty, 10, "found by the poll")
                time.sleep(0.5)
        heard = """select pg_notify('runner', '1 default') from runner.runner"""
        wait_until(lambda: work.conn.execute(LISTENER).fetchone(), 20, "somebody listens again")
        work.conn.execute(heard)
        tasks += work.add("ordinary")
        wait_until(work.empty, 10)
        assert work.workers() == workers
        assert "killing" not in fleet.log()
    work.exactly_once(tasks)


@pytest.mark.case("P-30")
def test_p30_the_listening_link_is_dead(hurt: tuple[Hurt, Scene]) -> None:
    deaf(hurt[1], 1.5)


@pytest.mark.case("P-30")
@pytest.mark.full
def test_p30_for_a_minute(hurt: tuple[Hurt, Scene]) -> None:
    """Long enough for the link to be asked, found dead, and replaced, which holds up no poll."""
    deaf(hurt[1], 60.0)
