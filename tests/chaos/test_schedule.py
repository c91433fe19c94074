"""The schedule of a campaign is a matter of its seed alone."""

from collections import Counter

from chaos.faults import FAULTS
from chaos.schedule import in_turns, schedule

RATES = {name: each.per_minute for name, each in FAULTS.items()}


def test_a_seed_replays_its_schedule() -> None:
    assert schedule(RATES, 60, 7) == schedule(RATES, 60, 7)
    assert schedule(RATES, 60, 7) != schedule(RATES, 60, 8)


def test_a_fault_more_leaves_the_others_where_they_were() -> None:
    fewer = {name: rate for name, rate in RATES.items() if name != "kill_worker"}
    kept = [strike for strike in schedule(RATES, 60, 7) if strike.fault != "kill_worker"]
    assert schedule(fewer, 60, 7) == kept


def test_each_fault_strikes_as_often_as_it_should() -> None:
    counted = Counter(strike.fault for strike in schedule(RATES, 6000, 1))
    for name, rate in RATES.items():
        assert 0.5 * rate * 100 < counted[name] < 1.5 * rate * 100, name


def test_ten_minutes_are_three_thousand_faults() -> None:
    assert len(schedule(RATES, 600, 1)) > 3600  # some meet nobody


def test_order_and_bounds() -> None:
    strikes = schedule(RATES, 30, 3)
    assert strikes == sorted(strikes)
    assert all(0 <= strike.at < 30 for strike in strikes)
    assert schedule({"kill_worker": 0.0}, 30, 3) == []


def test_one_after_the_other() -> None:
    turns = in_turns(["freeze_both", "freeze_parent"], 20, 65, 1)
    assert [strike.at for strike in turns] == [3, 23, 43]
    assert [strike.fault for strike in turns] == ["freeze_both", "freeze_parent", "freeze_both"]
