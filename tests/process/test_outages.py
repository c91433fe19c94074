"""The database comes back having lost what it had not written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fleets
from tests.hurting import Hurt, hurtable, reconnect
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db, pytest.mark.everywhere]


@pytest.fixture
def hurt() -> Iterator[tuple[Hurt, str]]:
    """A server that may be crashed, and the URL of a database in it."""
    with hurtable() as one:
        yield one


def test_crashes_right_after_claims(hurt: tuple[Hurt, str], tmp_path: Path) -> None:
    """A claim is on disk before its handler starts: no second handler beside the first, ever."""
    server, url = hurt
    with fleets.work(url, tmp_path) as work:
        with fleets.running(url, tmp_path, procs=2) as fleet:
            tasks: list[int] = []
            for _ in range(10):
                fleets.wait_registered(work, 2)
                before = len(work.noted("start"))
                tasks += work.add("sleepy", seconds=0.3)
                wait_until(lambda least=before: len(work.noted("start")) > least, 20)
                server.crash()
                server.start()
                reconnect(work)
            wait_until(work.empty, 60)
            assert fleet.process.poll() is None
        work.exactly_once(tasks)
        assert not work.noted("overlap")
