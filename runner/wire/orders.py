"""Orders: what the parent tells one child, over its control pipe."""

import enum
import struct
from collections.abc import Iterator


class Order(enum.IntEnum):
    """What the parent tells a child over its control pipe."""

    EXTEND = 1  # the lease lasts until [at]
    STOP = 2  # claim nothing more; leave when the work in hand is done
    LOOK = 3  # look for work now, fully
    IDLE = 4  # to the maintainer: so many workers of a set of queues are idle [group, count]
    SUSPEND = 5  # to the console: give the terminal back, the parent is about to stop
    RESUME = 6  # to the console: the parent goes on


_ORDER = struct.Struct("<HHId")
ORDER_SIZE = _ORDER.size


def pack_order(order: Order, at: float = 0.0, *, group: int = 0, count: int = 0) -> bytes:
    """The record of an order, ORDER_SIZE bytes."""
    return _ORDER.pack(order, group, count, at)


def unpack_orders(data: bytes) -> Iterator[tuple[Order, float, int, int]]:
    """The whole orders in `data` as (order, at, group, count); one writer, so never torn."""
    for order, group, count, at in _ORDER.iter_unpack(data[: len(data) // ORDER_SIZE * ORDER_SIZE]):
        yield Order(order), at, group, count
