"""What an error of the database means to the person who typed a command."""

import psycopg
import pytest

from runner.store.troubles import explain


@pytest.mark.parametrize("error", [psycopg.errors.DiskFull, psycopg.errors.TooManyConnections])
def test_a_server_without_room_has_failed(error: type[psycopg.Error]) -> None:
    assert explain(error("could not extend file")) == (
        "the database failed: could not extend file",
        None,
        69,
    )
