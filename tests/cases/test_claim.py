"""Cases about claims: types that nobody knows."""

import time

import pytest

from tests.cases.aftermath import Scene
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
TOLD = "task type not implemented: later"


def unknown(scene: Scene, seconds: float, lines: int) -> None:
    """500 of a type that only the newer app knows, beside work that the older one knows."""
    work = scene.work
    tasks = work.add("later", 500)
    with scene.fleet(app="tests.apps.chores", procs=2) as old:
        wait_until(lambda: TOLD in old.log(), 20)
        known = work.add("ordinary", 50)
        wait_until(lambda: work.states() == {"ready": 500}, 20)
        time.sleep(seconds)
        never = "select count(*) from runner.task where fence = 0 and attempt = 0"
        assert work.conn.execute(never).fetchone() == (500,)
        assert old.log().count(TOLD) <= lines
        # Another fleet takes them at once, beside the old one.
        with scene.fleet(procs=2):
            wait_until(work.empty, 20)
    work.exactly_once(tasks + known)


@pytest.mark.case("P-29")
def test_p29_unknown_types_wait_for_who_knows_them(scene: Scene) -> None:
    """Never claimed, so no attempt is spent and nothing is logged in a loop; told once a minute."""
    unknown(scene, 0.5, lines=1)


@pytest.mark.case("P-29")
@pytest.mark.full
def test_p29_for_half_a_minute(scene: Scene) -> None:
    unknown(scene, 30.0, lines=2)
