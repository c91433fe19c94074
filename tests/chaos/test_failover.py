"""A streaming standby is promoted under load; the fleet goes on by the other name in its URL."""

import pytest

from chaos.failover import failover
from tests import servers

pytestmark = [pytest.mark.process, pytest.mark.full, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", [1, 2])
def test_with_a_synchronous_standby_nothing_is_lost(seed: int) -> None:
    judged = failover(True, seed, binaries=servers.chosen_binaries()).judgement
    assert judged.violations == 0, judged
    assert judged.completed == judged.acknowledged > 50
    assert judged.left == judged.dead == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_with_an_asynchronous_one_what_is_left_agrees(seed: int) -> None:
    """It lagged, so something is gone; but an effect is there if and only if its row is not, once."""
    result = failover(False, seed, binaries=servers.chosen_binaries())
    judged = result.judgement
    assert result.undone > 0  # else this shows nothing
    assert judged.doubled == judged.undeleted == []
    assert judged.completed == judged.acknowledged - len(judged.lost)
    assert judged.left == judged.dead == 0
