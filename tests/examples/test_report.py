"""examples/report: its crontab as cron would run it, and its README as somebody types it."""

import re
from pathlib import Path

import pytest

from tests.docs import typed
from tests.examples.playing import Play
from tests.terminal import cron_commands

pytestmark = [pytest.mark.process, pytest.mark.db]
SALES = """
insert into sale (at, region, amount)
select day + hour * interval '1 hour', (array['north', 'south', 'west'])[1 + hour % 3], hour
from unnest(array[current_date - 1, current_date, date '2026-01-31']) day, generate_series(0, 23) hour
"""
REGIONS = [("north", 8, 84), ("south", 8, 92), ("west", 8, 100)]


@pytest.fixture
def play(fresh: str, tmp_path: Path) -> Play:
    play = Play("report", tmp_path, fresh)
    for line in typed(play.block("runner init"))[:3]:
        play.terminal.type(line)
    play.rows(SALES)
    return play


def reported(play: Play, day: str) -> list[tuple[str, int, int]]:
    query = "select region, sales, amount::int from report where day = {} order by 1"
    return play.rows(query.format(day))  # type: ignore[return-value]


def test_two_nights_by_cron(play: Play) -> None:
    crontab = (play.directory / "crontab").read_text()
    assert re.findall(r"^(\w+)=", crontab, re.MULTILINE) == ["PATH", "PGSERVICE"]  # ours differ
    night, minute = cron_commands(crontab.replace("/srv/report", str(play.directory)))
    cron = play.terminal.cron
    assert cron(minute) == ""  # nothing to do
    assert cron(night) == ""
    assert play.states() == {"ready": 1}
    assert cron(minute) == ""
    assert reported(play, "current_date - 1") == REGIONS
    assert reported(play, "current_date") == []
    assert cron(night) == ""  # the same night again
    assert play.states() == {}


def test_a_day_by_hand(play: Play) -> None:
    enqueue, drain = typed(play.block("runner drain -v"))
    play.terminal.type(enqueue)
    assert "ok=4" in play.terminal.type(drain).stderr
    assert "already done" in play.terminal.type(enqueue).stderr
    assert reported(play, "date '2026-01-31'") == REGIONS
