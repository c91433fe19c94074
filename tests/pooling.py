"""A run of the suite through PgBouncer (RUNNER_TEST_POOLER): what works connects through it, what looks
at the outcome does not. A test that is about sessions is marked `direct`."""

import contextlib
import os
from collections.abc import Iterator

import pytest

from chaos import pooler

SIZE = 12  # server connections of a database: fewer than the clients of most tests
needed = pytest.mark.skipif(pooler.lacking() is not None, reason=str(pooler.lacking()))

_running: list[pooler.Pooler] = []


def wanted() -> bool:
    """Whether this run of the suite is through a pooler."""
    return bool(os.environ.get("RUNNER_TEST_POOLER"))


@contextlib.contextmanager
def before(url: str) -> Iterator[None]:
    """A pooler before the server of this URL, where this run wants one."""
    if not wanted():
        yield
        return
    with pooler.pooler(url, size=SIZE) as made:
        _running.append(made)
        yield
        _running.clear()


def through(url: str) -> str:
    """The URL for whoever works in this run."""
    return _running[0].url(url) if _running and url.startswith("postgresql://") else url
