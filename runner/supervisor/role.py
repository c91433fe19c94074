"""What the supervisor needs to know of a kind of child; the children themselves live in `roles`."""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from ..seat import Ends, Seat


class Restart(enum.Enum):
    """What follows the end of a child."""

    ALWAYS = "always"  # a part of the fleet: replaced until the fleet stops
    NEVER = "never"


@dataclass(frozen=True)
class Role:
    """A kind of child: its main function, how many, and when it stops.

    `main(seat, ends)` runs in the child and returns its exit code. `stop_order`: smaller stops first.
    `needs`: the role that must have said HELLO before one of these is started. `holds_leases`: it is a
    worker, which the parent renews, and which is killed when its lease is lost. `captures`: its stdout
    and stderr go through the parent to the log. `dies_with_parent`: the kernel kills its group when the
    parent is gone, however that happened. `extra(slot)`: further descriptors it takes along, by name.
    """

    name: str
    main: Callable[[Seat, Ends], int]
    count: int = 1
    stop_order: int = 0
    needs: str | None = None
    holds_leases: bool = False
    captures: bool = False
    own_session: bool = True
    dies_with_parent: bool = False
    restart: Restart = Restart.ALWAYS
    silent_seconds: float = 30.0
    extra: Callable[[int], dict[str, int]] = lambda slot: {}
