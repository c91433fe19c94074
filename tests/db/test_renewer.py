"""The renewer and its connection, in this process: what the server says without being asked."""

import os
import socket
from collections.abc import Iterator

import pytest

from runner.config import FleetConfig
from runner.handling.readable import wait_readable
from runner.roles.renewer import Renewer
from runner.seat import Ends, Seat
from tests.servers import Connection

pytestmark = [pytest.mark.db, pytest.mark.direct]


@pytest.fixture
def renewer(db: Connection, db_url: str) -> Iterator[Renewer]:
    """A renewer that has connected, and is asked nothing."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    (control, keep), sink = os.pipe(), os.open(os.devnull, os.O_WRONLY)
    config = FleetConfig(db_url, "tasks")
    made = Renewer(config, theirs.detach(), Seat("renewer", 0, 1), Ends(sink, control, -1, sink))
    made.attend()
    yield made
    if made.conn is not None:
        made.conn.close()
    made.requests.close()
    ours.close()
    for fd in (control, keep, sink):
        os.close(fd)


def test_what_is_no_end_is_read_and_waited_for_no_more(renewer: Renewer, db: Connection) -> None:
    """Else it would wake for it again and again."""
    conn = renewer.conn
    assert conn is not None
    conn.execute("listen unasked")
    db.execute("notify unasked")
    assert not renewer.told_to_stop()
    assert renewer.spoken_to
    renewer.attend()
    assert not wait_readable([conn.fileno()], 0)
    assert renewer.conn is conn


def test_the_end_of_its_session_has_it_connect_again(renewer: Renewer, db: Connection) -> None:
    conn = renewer.conn
    assert conn is not None
    db.execute("select pg_terminate_backend(%s)", [conn.info.backend_pid])
    assert not renewer.told_to_stop()
    renewer.attend()
    assert renewer.conn is None
    renewer.attend()
    assert renewer.conn is not None
