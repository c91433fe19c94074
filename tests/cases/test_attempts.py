"""Cases about attempts: who is charged, and when it is enough."""

import pytest

from tests.cases.aftermath import DEAD, Scene
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]


@pytest.mark.case("P-02")
def test_p02_a_task_that_kills_its_worker_ends_dead(scene: Scene) -> None:
    """Charged in the claim, so three tries with growing delays, then dead with the signal's name."""
    scene.expect(DEAD + r"3 attempts: SIGKILL")
    work = scene.work
    (killer,) = work.add("dies", by="SIGKILL")
    good = work.add("ordinary", 20)
    with scene.fleet("--backoff", "300ms:10s", procs=2):
        wait_until(lambda: work.states() == {"dead": 1}, 20)
        row = work.row(killer)
        assert row is not None
        assert (row["attempt"], row["cause"]) == (3, "SIGKILL (perhaps out of memory)")
        wait_until(lambda: len(work.workers()) == 2, why="every worker was replaced")
    work.exactly_once(good)
    starts = [fields for fields in work.noted("start") if int(fields[1]) == killer]
    assert [int(fields[2]) for fields in starts] == [1, 2, 3]
    assert len({fields[4] for fields in starts}) == 3, "three processes"
    first, second, third = (float(fields[5]) for fields in starts)
    assert second - first >= 0.3
    assert third - second >= 0.6
