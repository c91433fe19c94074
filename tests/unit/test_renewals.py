"""What the parent asks of the renewer is asked until it is answered."""

import socket

from runner.supervisor.renewals import Renewals
from runner.wire import Token

WORKER = b"w" * 16
TOKENS = [Token(number, number) for number in range(50)]


def read_all(end: socket.socket) -> list[bytes]:
    """Every request that lies there."""
    end.setblocking(False)
    found = []
    while True:
        try:
            found.append(end.recv(1 << 18))
        except BlockingIOError:
            return found


def test_what_finds_no_room_is_sent_with_the_next_renewal() -> None:
    """A renewer that stands still for a while and goes on: nobody starts over for it."""
    renewals = Renewals(1.0)
    try:
        while not renewals._unsent:
            renewals.hand_back(WORKER, TOKENS, [])
        renewals.hand_back(WORKER, TOKENS, [])
        first = read_all(renewals.renewer_end)
        assert len(first) == len(renewals.unhanded) - 2
        renewals.ask([], [], 1.0)
        *late, renewal = read_all(renewals.renewer_end)
        assert (len(late), len(renewals._unsent)) == (2, 0)
        assert len({*first, *late, renewal}) == len(first) + 3
    finally:
        renewals.parent_end.close()
        renewals.renewer_end.close()
