"""The scene of a case."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import aftermath
from tests.hurting import Hurt, hurtable


@pytest.fixture
def scene(fresh: str, tmp_path: Path) -> Iterator[aftermath.Scene]:
    """A database of this case's own and its fleets; everything is looked at when the case is over."""
    with aftermath.scene(fresh, tmp_path) as one:
        yield one


@pytest.fixture
def hurt(tmp_path: Path) -> Iterator[tuple[Hurt, aftermath.Scene]]:
    """A server that a case may hurt, and a scene in a database of it."""
    with hurtable() as (server, url), aftermath.scene(url, tmp_path) as one:
        yield server, one
