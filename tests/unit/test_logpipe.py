"""Log records: always one line of JSON below PIPE_BUF, whatever is in them; never a wait."""

import json
import logging
import os
import select
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.logpipe import LINE_MAX, LogPipe, PipeHandler
from tests.data import NAUGHTY


class Pipe:
    """Both ends of a log pipe."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        os.set_blocking(self.write_end, False)

    def lines(self) -> list[bytes]:
        """What has been written since."""
        data = b""
        while True:
            try:
                piece = os.read(self.read_end, 1 << 16)
            except BlockingIOError:
                return data.splitlines(keepends=True)
            data += piece

    def one(self) -> dict[str, Any]:
        """The one record that was written, as a strict reader finds it."""
        (line,) = self.lines()
        assert len(line) <= LINE_MAX
        assert line.endswith(b"\n")
        found = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert isinstance(found, dict)
        return found


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ends = Pipe()
    yield ends
    for fd in (ends.read_end, ends.write_end):
        try:
            os.close(fd)
        except OSError:
            pass


def test_a_line_is_written_whole() -> None:
    assert LINE_MAX <= select.PIPE_BUF


def test_common_fields_are_added_and_empty_ones_left_out(pipe: Pipe) -> None:
    LogPipe(pipe.write_end, role="worker", slot=3).info("done", "all well", task=7, cause=None)
    record = pipe.one()
    assert record.pop("at") > 0
    assert record == {
        "level": "info",
        "event": "done",
        "message": "all well",
        "role": "worker",
        "slot": 3,
        "task": 7,
    }


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


ring: list[Any] = []
ring.append(ring)

ODD = {
    "long": "x" * 1_000_000,
    "long of many bytes": "\U0001f600" * 100_000,
    "surrogates": "\udce9" * 5000,
    "NUL": "\0" * 5000,
    "lines": "a\nb\r\n\u2028c" * 2000,
    "bytes": b"\xff" * 5000,
    "object": object(),
    "object without text": Hostile(),
    "not a number": float("nan"),
    "infinite": float("inf"),
    "nested": {"a": ["b" * 9000, {"c": "d" * 9000}]},
    "keys": {(1, 2): 3},
    "ring": ring,
    "many digits": 10**5000,
    "set": {1, 2},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_content_as_message_and_as_field(pipe: Pipe, name: str) -> None:
    log = LogPipe(pipe.write_end, role="worker")
    log.info("event", "fine", value=ODD[name])
    assert pipe.one()["event"] == "event"
    log.info("event", ODD[name])
    assert pipe.one()["event"] == "event"


def test_many_long_fields_and_long_names(pipe: Pipe) -> None:
    log = LogPipe(pipe.write_end)
    log.info("event", "m" * 3000, **{f"field{n}": "v" * 3000 for n in range(50)})
    assert pipe.one()["event"] == "event"
    log.info("event", "m", **{f"field{n}": n for n in range(2000)})
    assert pipe.one()["event"] == "event"
    log.info("event", "m", **{"k" * 10_000: 1})
    assert pipe.one()["event"] == "event"


def test_naughty_strings(pipe: Pipe) -> None:
    log = LogPipe(pipe.write_end)
    for text in NAUGHTY:
        log.info("event", text)
        assert pipe.one()["message"] == text


@given(st.text(st.characters(), max_size=3000), st.text(max_size=3000))
def test_any_text_makes_one_short_line(message: str, value: str) -> None:
    ends = Pipe()
    LogPipe(ends.write_end).info("event", message, value=value)
    ends.one()
    os.close(ends.read_end)
    os.close(ends.write_end)


def test_a_full_pipe_drops_and_counts(pipe: Pipe) -> None:
    log = LogPipe(pipe.write_end)
    for _ in range(200):  # 64 KiB hold less than that
        log.info("event", "x" * 2000)
    written = len(pipe.lines())
    assert 0 < written < 200
    log.info("event", "room again")
    assert pipe.one()["dropped_before"] == 200 - written
    log.info("event", "and on")
    assert "dropped_before" not in pipe.one()


def test_without_a_reader_it_is_quiet(pipe: Pipe) -> None:
    os.close(pipe.read_end)
    LogPipe(pipe.write_end).error("event", "nobody hears")


@pytest.fixture
def logger(pipe: Pipe) -> logging.Logger:
    logger = logging.Logger("alone", logging.DEBUG)  # nobody else's handlers hear it
    logger.addHandler(PipeHandler(LogPipe(pipe.write_end)))
    return logger


def test_what_handlers_log_never_raises(pipe: Pipe, logger: logging.Logger) -> None:
    logger.info("%d of %d", 1)  # an argument is missing
    assert "%d of %d" in pipe.one()["message"]
    logger.warning("%s", Hostile())
    assert pipe.one()["level"] == "warning"
    logger.info(Hostile())
    pipe.one()
    logger.info("m", extra={"task": Hostile()})
    pipe.one()


def test_what_handlers_log_has_its_task(pipe: Pipe, logger: logging.Logger) -> None:
    adapter = logging.LoggerAdapter(logger, {"task": 5, "type": "mail", "attempt": 2})
    adapter.error("a line", exc_info=False)
    record = pipe.one()
    assert (record["task"], record["type"], record["attempt"]) == (5, "mail", 2)
    assert record["event"] == "handler"


def test_the_traceback_that_a_handler_logs_is_there(pipe: Pipe, logger: logging.Logger) -> None:
    try:
        raise ValueError("the reason")
    except ValueError:
        logger.exception("it failed")
    assert "ValueError: the reason" in json.dumps(pipe.one())
