"""The sink: whoever writes goes on while the reader does not read, and nothing is torn or mixed up."""

import os
import pty
import termios
from pathlib import Path

from runner.sink import PIECE, Sink, opened_anew


def read_all(fd: int) -> bytes:
    os.set_blocking(fd, False)
    found = b""
    try:
        while data := os.read(fd, 65536):
            found += data
    except BlockingIOError:
        pass
    return found


def test_a_reader_that_stands_still_holds_up_nobody() -> None:
    read, write = os.pipe()
    sink = Sink(opened_anew(write))
    said = b"".join(b"%07d\n" % number for number in range(50_000))
    for start in range(0, len(said), 8 * PIECE):
        sink.write(said[start : start + 8 * PIECE])
    assert sink.full
    assert not sink.closed
    found = b""
    while sink.pending:
        found += read_all(read)
        sink.flush()
    assert found + read_all(read) == said
    for fd in (read, write, sink.fd):
        os.close(fd)


def test_a_terminal_that_is_held_holds_up_nobody() -> None:
    master, slave = pty.openpty()
    sink = Sink(opened_anew(slave))
    termios.tcflow(slave, termios.TCOOFF)
    for _ in range(1000):
        sink.write(b"x" * 1000)
    assert sink.pending
    assert os.get_blocking(slave), "others who have the terminal open must not notice"
    sink.drain(0.01)
    assert sink.pending
    sink.forget()
    assert not sink.pending
    for fd in (master, slave, sink.fd):
        os.close(fd)


def test_a_reader_that_is_gone_ends_it_quietly() -> None:
    read, write = os.pipe()
    sink = Sink(os.dup(write))
    os.close(read)
    sink.write(b"for nobody")
    assert sink.closed
    sink.write(b"more")
    assert not sink.pending
    for fd in (write, sink.fd):
        os.close(fd)


def test_a_file_is_appended_to_where_others_write_too(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.write(b"first\n")
        file.flush()
        sink = Sink(opened_anew(file.fileno()))
        sink.write(b"second\n")
        os.close(sink.fd)
    assert (tmp_path / "log").read_bytes() == b"first\nsecond\n"
