"""What the supervisor needs to know of a kind of child; the children themselves live in `roles`."""

from collections.abc import Callable
from dataclasses import dataclass

from ..config import SILENT_SECONDS
from ..seat import Ends, Seat


@dataclass(frozen=True)
class Role:
    """A kind of child: its main function, how many, and when it stops. One that ends is replaced.

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
    silent_seconds: float = SILENT_SECONDS
    extra: Callable[[int], dict[str, int]] = lambda slot: {}
