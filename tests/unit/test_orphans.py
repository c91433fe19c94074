"""Looking for what should never be there costs little, whatever a look costs."""

import pytest

from runner.maintaining.orphans import Orphans


@pytest.mark.parametrize(("took", "after"), [(0.0, 0.0), (0.004, 0.0), (0.065, 60.0), (2.0, 600.0)])
def test_a_dear_look_is_put_off(took: float, after: float) -> None:
    orphans = Orphans()
    assert orphans.are_due(0.0)
    orphans.looked(100.0, 100.0 + took)
    assert orphans.are_due(100.001 + after)
    assert not after or not orphans.are_due(99.999 + after)
