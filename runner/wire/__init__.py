"""What travels between the processes of a fleet, byte by byte.

Events go to the parent, orders to one child, requests to the renewer, tokens to whoever is to begin a
task. Log records are JSON lines of at most PIPE_BUF bytes on a pipe of their own (`logpipe`).
"""

from .events import EVENT_SIZE, NO_ID, Event, EventReader, EventWriter, Kind, Outcome, pack_event
from .orders import ORDER_SIZE, Order, pack_order, unpack_orders
from .requests import (
    CAUSE_BYTES,
    POST_MORTEM_BYTES,
    HandBack,
    How,
    Renewal,
    Settle,
    pack_hand_back,
    pack_renew,
    pack_settle,
    unpack_request,
)
from .tokens import MOST_TOKENS, TOKEN_SIZE, Token, pack_tokens, task_of, unpack_tokens

__all__ = [
    "CAUSE_BYTES",
    "EVENT_SIZE",
    "MOST_TOKENS",
    "NO_ID",
    "ORDER_SIZE",
    "POST_MORTEM_BYTES",
    "TOKEN_SIZE",
    "Event",
    "EventReader",
    "EventWriter",
    "HandBack",
    "How",
    "Kind",
    "Order",
    "Outcome",
    "Renewal",
    "Settle",
    "Token",
    "pack_event",
    "pack_hand_back",
    "pack_order",
    "pack_renew",
    "pack_settle",
    "pack_tokens",
    "task_of",
    "unpack_orders",
    "unpack_request",
    "unpack_tokens",
]
