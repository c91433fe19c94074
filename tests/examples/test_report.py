"""examples/report: its crontab as cron would run it, and its README as somebody types it."""

import re
from pathlib import Path

import pytest

from tests.docs import typed
from tests.examples.playing import Play

pytestmark = [pytest.mark.process, pytest.mark.db]
SALES = """
insert into sale (at, region, amount)
select day + hour * interval '1 hour', (array['north', 'south', 'west'])[1 + hour % 3], hour
from unnest(array[current_date - 1, current_date, date '2026-01-31']) day, generate_series(0, 23) hour
"""
REGIONS = [("north", 8, 84), ("south", 8, 92), ("west", 8, 100)]


class Cron:
    """Runs the lines of a crontab by hand: its variables, five fields, % as cron reads it, and sh."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.entries = []
        for line in (play.directory / "crontab").read_text().splitlines():
            if re.match(r"\w+=", line):
                assert line.startswith(("PATH=/srv/report/.venv/bin:", "PGSERVICE="))
            elif line and not line.startswith("#"):
                assert not re.search(r"(?<!\\)%", line), "cron ends the command at a bare %"
                self.entries.append(line.split(maxsplit=5)[5].replace("\\%", "%"))

    def run(self, number: int) -> str:
        """What cron would mail."""
        command = self.entries[number].replace("/srv/report", str(self.play.directory))
        result = self.play.terminal.type(f"sh -c '{command.replace(chr(39), chr(39) * 2)}'")
        return result.stdout + result.stderr


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
    cron = Cron(play)
    assert cron.run(1) == ""  # nothing to do
    assert cron.run(0) == ""
    assert play.states() == {"ready": 1}
    assert cron.run(1) == ""
    assert reported(play, "current_date - 1") == REGIONS
    assert reported(play, "current_date") == []
    assert cron.run(0) == ""  # the same night again
    assert play.states() == {}


def test_a_day_by_hand(play: Play) -> None:
    enqueue, drain = typed(play.block("runner drain -v"))
    play.terminal.type(enqueue)
    assert "ok=4" in play.terminal.type(drain).stderr
    assert "already done" in play.terminal.type(enqueue).stderr
    assert reported(play, "date '2026-01-31'") == REGIONS
