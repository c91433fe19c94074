"""The figures of `status` and the counts of all time, as Prometheus text."""

from typing import Any

import psycopg

from ..operating.prometheus import exposition
from . import tallies
from .looking import look


def metrics(conn: psycopg.Connection[Any]) -> str:
    """What there is, and what has ended."""
    return exposition(look(conn), tallies.totals(conn))
