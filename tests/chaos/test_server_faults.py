"""A full disk and a clock that jumps, each by itself: nobody else's fault may hide what they do."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos import clock, disk
from chaos.campaign import Campaign, Result
from chaos.schedule import in_turns
from chaos.stage import Stage, stage
from runner.store.passes import SWEPT

pytestmark = [pytest.mark.process, pytest.mark.full, pytest.mark.timeout(500)]
TIMES = 3 if os.environ.get("RUNNER_TEST_FULL") else 1


@dataclass
class Seen:
    """What a campaign of one fault came to, and what was written meanwhile."""

    result: Result
    attempts: set[int]  # the numbers that handlers were told
    fleets: str  # their logs
    server: str


def struck(fault: str, every_seconds: float, seconds: float) -> Seen:
    """Strikes in turn; nothing lost, nothing doubled, no overlap, all done."""
    with stage() as place:
        strikes = in_turns([fault], every_seconds, seconds, seed=7)
        result = Campaign(place).run(strikes, seconds, seed=7)
        seen = Seen(result, attempts(place), logs(place.directory), place.server.log.read_text())
    judged = result.judgement
    assert judged.violations == 0, judged
    assert judged.left == judged.dead == 0, judged
    assert judged.completed == judged.acknowledged > 0
    assert result.struck[fault] > 2 * TIMES
    return seen


def attempts(place: Stage) -> set[int]:
    lines = (place.directory / "log").read_text().splitlines()
    return {int(line.split()[2]) for line in lines}


def logs(directory: Path) -> str:
    return "".join(path.read_text() for path in directory.glob("*.log"))


@pytest.mark.skipif(disk.lacking() is not None, reason=str(disk.lacking()))
def test_a_disk_without_room_costs_no_attempt() -> None:
    """Statements fail, or the server goes down until there is room; whatever fails is refunded."""
    seen = struck("fill_disk", 18.0, 72.0 * TIMES)
    assert "No space left on device" in seen.server
    assert "PANIC" in seen.server
    assert seen.attempts == {1}


@pytest.mark.skipif(clock.lacking() is not None, reason=str(clock.lacking()))
def test_a_clock_of_the_database_that_jumps_takes_no_live_task() -> None:
    """A sweep of that moment would have to be luck, so there are many: as soon as the clock is right, it
    jumps again."""
    seen = struck("jump_clock", 1.0, 60.0 * TIMES)
    assert SWEPT not in seen.fleets
    assert "killing" not in seen.fleets
    assert seen.attempts == {1}
