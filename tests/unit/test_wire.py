"""What travels on the pipes: every record comes back as it went, and no bytes break the reader."""

import math
import os
import select
import socket
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.wire import (
    EVENT_SIZE,
    ORDER_SIZE,
    Event,
    EventReader,
    EventWriter,
    How,
    Kind,
    Order,
    Outcome,
    Renewal,
    Settle,
    pack_event,
    pack_order,
    pack_renew,
    pack_settle,
    unpack_orders,
    unpack_request,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
IDS = st.binary(min_size=16, max_size=16)
EVENTS = st.builds(
    Event,
    st.sampled_from(Kind),
    st.integers(0, 2**32 - 1),
    IDS,
    INT64,
    INT64,
    st.floats(allow_nan=False),
    INT64,
    st.integers(0, 255),
)
MAGIC = pack_event(Event(Kind.ALIVE, 1))[:2]


def test_records_are_written_whole() -> None:
    assert EVENT_SIZE < select.PIPE_BUF
    assert ORDER_SIZE < select.PIPE_BUF
    assert len(pack_event(Event(Kind.STARTED, 7, task=1, fence=2))) == EVENT_SIZE
    assert len(pack_order(Order.EXTEND, 1.5)) == ORDER_SIZE


@given(st.lists(EVENTS, max_size=8), st.integers(1, 3 * EVENT_SIZE))
def test_events_come_back_however_they_are_cut(events: list[Event], piece: int) -> None:
    data = b"".join(map(pack_event, events))
    reader = EventReader()
    found = []
    for start in range(0, len(data), piece):
        found += reader.feed(data[start : start + piece])
    assert found == events
    assert reader.strays == 0


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_no_bytes_make_the_reader_raise(pieces: list[bytes]) -> None:
    reader = EventReader()
    for piece in pieces:
        list(reader.feed(piece))
    # What it still holds is less than a record, so its memory is bounded.
    assert len(reader._rest) < EVENT_SIZE


@given(
    st.lists(st.one_of(EVENTS, st.binary(min_size=1, max_size=120)), max_size=10),
    st.integers(1, 200),
)
def test_strays_between_records_cost_no_record(parts: list[Event | bytes], piece: int) -> None:
    # Without the magic in it a stray cannot be taken for the head of a record.
    parts = [p if isinstance(p, Event) else p.replace(MAGIC[:1], b"x") for p in parts]
    data = b"".join(pack_event(p) if isinstance(p, Event) else p for p in parts)
    events = [p for p in parts if isinstance(p, Event)]
    # What is at the end of the stream can only be told from a record by what follows.
    data += pack_event(Event(Kind.ALIVE, 9))
    reader = EventReader()
    found = []
    for start in range(0, len(data), piece):
        found += reader.feed(data[start : start + piece])
    assert found == [*events, Event(Kind.ALIVE, 9)]


def test_a_stray_is_counted_once_and_the_next_record_is_read() -> None:
    reader = EventReader()
    event = Event(Kind.FINISHED, 3, task=8, fence=9, flag=Outcome.OK)
    assert list(reader.feed(b"print in a child\n" + pack_event(event))) == [event]
    assert reader.strays == 1
    assert list(reader.feed(pack_event(event))) == [event]
    assert reader.strays == 1


def test_a_long_stray_that_ends_before_the_next_record_is_one_stray() -> None:
    reader = EventReader()
    event = Event(Kind.ALIVE, 3)
    assert list(reader.feed(b"x" * 1000)) == []
    assert list(reader.feed(b"x" * 1000)) == []
    assert list(reader.feed(pack_event(event))) == [event]
    assert reader.strays == 1


def test_a_stray_that_ends_with_half_of_the_magic() -> None:
    reader = EventReader()
    event = Event(Kind.ALIVE, 3)
    data = b"x" * 100 + MAGIC[:1] + pack_event(event)
    found = list(reader.feed(data[:101])) + list(reader.feed(data[101:]))
    assert found == [event]


@pytest.mark.parametrize("kept", range(1, EVENT_SIZE))
def test_a_torn_record_costs_at_most_the_next_one(kept: int) -> None:
    """A writer that died half-way (which pipes do not allow) does not end the stream."""
    events = [Event(Kind.STARTED, n, task=n, fence=n) for n in range(1, 5)]
    whole = [pack_event(event) for event in events]
    found = list(EventReader().feed(whole[0][:kept] + b"".join(whole[1:])))
    assert found[-2:] == events[-2:]


def test_an_unknown_kind_is_a_stray() -> None:
    record = bytearray(pack_event(Event(Kind.ALIVE, 1)))
    record[2] = 250
    reader = EventReader()
    after = Event(Kind.ALIVE, 2)
    assert list(reader.feed(bytes(record) + pack_event(after))) == [after]
    assert reader.strays >= 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(Order),
            st.floats(allow_nan=False),
            st.integers(0, 2**16 - 1),
            st.integers(0, 2**32 - 1),
        ),
        max_size=5,
    ),
    st.binary(max_size=ORDER_SIZE - 1),
)
def test_orders_come_back(
    orders: list[tuple[Order, float, int, int]], half_an_order: bytes
) -> None:
    data = b"".join(pack_order(o, at, group=g, count=n) for o, at, g, n in orders)
    assert list(unpack_orders(data + half_an_order)) == orders


@given(st.floats(allow_nan=False), st.lists(st.builds(Renewal, IDS, *5 * [INT64])))
def test_renewals_come_back(asked_at: float, renewals: list[Renewal]) -> None:
    assert unpack_request(pack_renew(asked_at, renewals)) == (asked_at, renewals)


@given(st.builds(Settle, IDS, st.sampled_from(How), INT64, INT64, st.text(max_size=40)))
def test_settles_come_back(settle: Settle) -> None:
    assert unpack_request(pack_settle(settle)) == settle


def test_a_cause_of_any_length_and_any_characters_is_sent() -> None:
    for cause in ("é" * 10_000, "\udce9" * 300, "\0"):
        found = unpack_request(pack_settle(Settle(bytes(16), How.DIED, cause=cause)))
        assert isinstance(found, Settle)
        assert len(found.cause.encode()) <= 500
        assert cause.encode("utf-8", "backslashreplace").decode().startswith(found.cause)


@pytest.mark.parametrize("data", [b"", b"X", b"hello"])
def test_what_is_no_request_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a request"):
        unpack_request(data)


def test_a_writer_of_a_pipe_without_reader_is_quiet() -> None:
    read, write = os.pipe()
    os.close(read)
    EventWriter(write, 1).send(Kind.ALIVE)
    os.close(write)


def test_what_is_deferred_is_written_whole() -> None:
    """The pipe has many writers, and tears what is larger than it promises."""
    ours, parents = socket.socketpair(
        socket.AF_UNIX, socket.SOCK_SEQPACKET
    )  # one write, one packet
    with ours, parents:
        writer = EventWriter(ours.fileno(), 7)
        for number in range(200):
            writer.defer(Kind.FINISHED, task=number, fence=1)
        writer.send(Kind.ALIVE)
        ours.close()
        reader = EventReader()
        events: list[Event] = []
        while data := parents.recv(1 << 16):
            assert len(data) <= select.PIPE_BUF
            events += reader.feed(data)
    assert [event.task for event in events] == [*range(200), 0]


def test_a_writer_writes_its_incarnation() -> None:
    read, write = os.pipe()
    EventWriter(write, 77).send(Kind.STARTED, task=5, fence=6, at=1.5)
    (event,) = EventReader().feed(os.read(read, 1000))
    assert event == Event(Kind.STARTED, 77, task=5, fence=6, at=1.5)
    os.close(read)
    os.close(write)


@pytest.mark.parametrize(
    ("done", "total"),
    [(2**70, 1), (1, 2**70), (-(2**70), 0), (2.5, 9.9), (True, False), (math.nan, math.inf)],
)
def test_odd_progress_of_a_handler_is_no_error(done: float, total: float) -> None:
    """`task.progress` is called by handlers, with whatever they counted."""
    read, write = os.pipe()
    EventWriter(write, 1).send(Kind.PROGRESS, task=5, fence=total, count=done)  # type: ignore[arg-type]
    (event,) = EventReader().feed(os.read(read, 1000))
    assert event.kind is Kind.PROGRESS
    os.close(read)
    os.close(write)


def test_not_a_number_does_not_pass_as_a_time() -> None:
    """A NaN as a deadline would compare false with everything, and so never come."""
    odd = replace(Event(Kind.STARTED, 1, task=1, fence=1), at=math.nan)
    reader = EventReader()
    assert list(reader.feed(pack_event(odd))) == []
    assert reader.strays == 1
