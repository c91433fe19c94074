"""The scene of a case."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import aftermath


@pytest.fixture
def scene(fresh: str, tmp_path: Path) -> Iterator[aftermath.Scene]:
    """A database of this case's own and its fleets; everything is looked at when the case is over."""
    with aftermath.scene(fresh, tmp_path) as one:
        yield one
