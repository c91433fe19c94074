"""Fixtures: servers and databases that are thrown away, and a census of processes."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from runner.embedded import Embedded
from tests import logins, pooling, servers

# A shell that puts the suite into the background has it ignore SIGINT, and so would every command that
# a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

CAMPAIGNS = "tests/chaos/"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """With RUNNER_TEST_ROLE the files that are not for that role are not even read."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if is_test and not logins.is_chosen(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With RUNNER_TEST_ROLE only what that role is for, whatever was named. What may take longest comes
    first, so that nobody waits for it at the end."""
    left = [item for item in items if not _is_chosen(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if _is_chosen(item)]
    items.sort(key=_longest_seconds, reverse=True)


class OneCampaign(LoadScopeScheduling):
    """Each test goes to whoever is free; but campaigns run one after the other, as each wants the
    machine for itself."""

    def _split_scope(self, nodeid: str) -> str:
        return CAMPAIGNS if nodeid.startswith(CAMPAIGNS) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneCampaign:
    """Where tests run side by side."""
    return OneCampaign(config, log)


def _longest_seconds(item: pytest.Item) -> float:
    limit = item.get_closest_marker("timeout")
    return float(limit.args[0]) if limit is not None else 0.0


def _is_chosen(item: pytest.Item) -> bool:
    direct = pooling.wanted() and item.get_closest_marker("direct") is not None
    return logins.is_chosen(item.path) and not direct


@pytest.fixture(scope="session")
def server() -> Iterator[Embedded]:
    """The server of this run (RUNNER_TEST_PG: `embedded` or `system`)."""
    servers.adopt_orphans(False)  # it is to be nobody's child, so that no census counts it
    with servers.throw_away_server(servers.chosen_binaries()) as started:
        servers.prepare(started)
        with pooling.before(started.url):
            yield started


@pytest.fixture
def db(server: Embedded) -> Iterator[servers.Connection]:
    """A connection (autocommit) to the shared database, emptied before the test."""
    url = servers.database_url(server.url, servers.SHARED)
    with psycopg.connect(url, autocommit=True) as conn:
        servers.empty(conn)
        yield conn


@pytest.fixture
def db_url(db: servers.Connection, server: Embedded) -> str:
    """The URL of the database of `db`, for a second session in the same test."""
    return logins.as_chosen(servers.database_url(server.url, servers.SHARED))


@pytest.fixture
def fresh(server: Embedded) -> Iterator[str]:
    """The URL of a database of this test's own, for tests that fork, kill or leave locks."""
    with servers.fresh_database(server) as url:
        yield url


@pytest.fixture(autouse=True)
def _no_process_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests marked `process` leave nothing running; what they left is killed, by its PID."""
    if request.node.get_closest_marker("process") is None:
        yield
        return
    if any(name in request.fixturenames for name in ("server", "db", "db_url", "fresh")):
        request.getfixturevalue("server")  # before the count, and before we adopt orphans
    before = servers.descendants()
    servers.adopt_orphans(True)
    yield
    left = _left_over(before, patience_seconds=1.0)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    servers.wait_until(lambda: not _left_over(before), why="left-over processes killed")
    servers.reap_adopted()
    assert not left, f"processes left running: {left}"


def _left_over(before: dict[int, str], patience_seconds: float = 0.0) -> dict[int, str]:
    """What is there that was not; one that is just ending gets a moment for it."""
    end = time.monotonic() + patience_seconds
    while True:
        now = servers.descendants()
        left = {pid: line for pid, line in now.items() if pid not in before}
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.005)
