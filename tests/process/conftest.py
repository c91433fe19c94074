"""What several files here need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleets import Work, work


@pytest.fixture
def queue(fresh: str, tmp_path: Path) -> Iterator[Work]:
    """The queue of a fresh database, and a directory for its witnesses."""
    with work(fresh, tmp_path) as one:
        yield one
