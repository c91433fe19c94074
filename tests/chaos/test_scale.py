"""Many hosts on one queue: shares, a host cut off, a rolling deploy, drains, a wrong clock, the cost."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos import clock, hosts
from chaos.cluster import DATABASE
from chaos.scale.__main__ import CUTS, EACH, NAP
from chaos.scale.clocks import clocks
from chaos.scale.cost import draw
from chaos.scale.counting import cost
from chaos.scale.deploying import deploying
from chaos.scale.draining import draining
from chaos.scale.families import apart, families
from chaos.scale.ground import HELPERS, Ground, ground
from chaos.scale.sharing import LIMIT, sharing
from runner.operating.hosts import by_host
from runner.store import overview
from tests import servers
from tests.commands import command, environment
from tests.terminals import Pty, terminal

reason = hosts.lacking()
pytestmark = [pytest.mark.process, pytest.mark.skipif(reason is not None, reason=str(reason))]
MANY = 10_000  # tasks that keep all hosts busy for minutes
FULL = bool(os.environ.get("RUNNER_TEST_FULL"))


def wrong_in_a_row(place: Ground, tasks: int, each: int) -> list[str]:
    """What was wrong of shares, deploy and drains, one after the other."""
    place.start()
    # A run of seconds loses more of its share to a cut, and to a machine that is busy.
    limit, cuts, nap = (LIMIT, CUTS, NAP) if tasks >= MANY else (0.9, [1.0], 0.05)
    wrong = sharing(place, tasks, nap=nap, cuts=cuts, limit=limit).wrong
    wrong += deploying(place, each).wrong
    place.made.stop()
    return wrong + draining(place, 3 * each).wrong


def test_three_hosts_share_a_queue() -> None:
    """Every effect once, a cut, a rolling deploy and drains at once included."""
    with ground(3, 2, servers.chosen_binaries()) as place:
        assert wrong_in_a_row(place, 300, 20) == []
        assert {one.host.name for one in place.runners if one.host} == {"h0", "h1", "h2"}


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not FULL, reason="tens of thousands of tasks: RUNNER_TEST_FULL")
def test_eight_hosts_share_a_queue() -> None:
    """50,000 tasks on 64 workers; each host's share within a quarter of even."""
    with ground(8, 8, servers.chosen_binaries()) as place:
        assert wrong_in_a_row(place, 50_000, EACH) == []


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.skipif(clock.lacking() is not None, reason=str(clock.lacking()))
def test_a_host_with_a_wrong_clock_among_others() -> None:
    with ground(3, 2, servers.chosen_binaries()) as place:
        assert clocks(place, 200).wrong == []


@pytest.mark.full
@pytest.mark.timeout(400)
def test_what_hosts_cost_grows_with_their_number_and_a_task_costs_the_same(tmp_path: Path) -> None:
    one, three = (cost(hosts, 2, 1000, 20) for hosts in (1, 3))
    assert 1 < one.idle_statements < 8
    assert three.idle_statements < 3.5 * one.idle_statements
    assert three.idle_wal < 3.5 * one.idle_wal
    assert three.effect.wal < 1.3 * one.effect.wal
    assert three.effect.statements < 20  # that of a task that is claimed alone, and some
    assert three.connections <= 3 * (2 + HELPERS)
    assert three.effect.waiting < 0.2  # of what works: nobody stands in a queue to claim
    draw(tmp_path, "hosts", [one, three])
    plots = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert sorted(plots) == ["hosts-claims.svg", "hosts-idle.svg", "hosts-wal.svg"]
    assert all(f">{count}</text>" in text for text in plots.values() for count in (2, 6))


@pytest.mark.full
def test_a_database_for_each_family_of_queues() -> None:
    """What happens to one primary is nothing to the other's family."""
    with families(2, 2, servers.chosen_binaries()) as grounds:
        assert apart(grounds, 60).wrong == []


@contextlib.contextmanager
def watching(place: Ground, columns: int) -> Iterator[Pty]:
    """`runner status --watch` on a terminal, past the network."""
    ours = environment(DATABASE_URL=place.made.server.url(DATABASE))
    typed = command("status", "--watch")
    with terminal(typed, place.made.directory, ours, columns=columns) as one:
        yield one


def test_a_lost_host_is_shown_until_it_is_swept() -> None:
    """By what `status` reads, and by the live view on a wide and on a narrow terminal."""
    with ground(2, 1, servers.chosen_binaries()) as place, contextlib.ExitStack() as stack:
        place.start()
        views = [stack.enter_context(watching(place, columns)) for columns in (100, 60)]

        def states() -> dict[str, str]:
            return {one["host"]: one["state"] for one in by_host(overview.workers(place.conn))}

        for one in views:
            shown = one.wait_for("2 workers on 2 hosts", "hosts ──", "h0", "h1")
            assert "lost" not in shown
        assert states() == {"h0": "idle", "h1": "idle"}
        seen, told = [states()], set()
        place.runners[1].kill()

        def swept() -> bool:
            if (now := states()) != seen[-1]:
                seen.append(now)
            told.update(one for one in views if "a host is lost" in one.text())
            return len(seen) > 2

        place.until(swept, "a sweep")
        assert seen[1:] == [{"h0": "idle", "h1": "lost"}, {"h0": "idle"}]
        assert told == set(views)
        for one in views:
            one.wait_for("lost", "hosts ──", "h1", gone=True)
            one.type("q")
            assert one.end() == 0
