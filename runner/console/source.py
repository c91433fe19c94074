"""The console's end of the child that asks the database: one request at a time, and never waiting."""

import contextlib
import json
import os
import signal
import socket
from collections.abc import Collection
from typing import Any, NoReturn

from .. import kernel
from ..clock import now

Record = dict[str, Any]
PATIENCE_SECONDS = 30.0  # with one answer; then the child is killed, and the next one asks anew
LARGEST = 1 << 24  # bytes of one answer


class Source:
    """Starts the child when it is first asked. `fd` turns readable when it has answered."""

    def __init__(self, url: str, who: str) -> None:
        self._url = url
        self._who = who
        self._pid = 0
        self._end: socket.socket | None = None
        self._life = -1
        self._rest = b""
        self._waiting: list[Record] = []
        self._asked: Record | None = None
        self.asked_at = 0.0

    @property
    def fd(self) -> int | None:
        """What to wait on; None while there is no child."""
        return self._end.fileno() if self._end is not None else None

    @property
    def silent_since(self) -> float | None:
        """When the request was sent that has no answer yet."""
        return self.asked_at if self._asked is not None else None

    def ask(self, request: Record) -> None:
        """Send a request, now or when the one before is answered; a look only if none waits."""
        is_look = request["ask"] == "look"
        if is_look and (self._asked is not None or self._waiting):
            return
        self._waiting.append(request)
        self._send_next()

    def answers(self) -> list[Record]:
        """What has been answered since; a child that ended or stays silent is replaced."""
        found: list[Record] = []
        if self._end is not None:
            try:
                while data := self._end.recv(1 << 16, socket.MSG_DONTWAIT):
                    self._rest += data
                self._lose("the process that asks it has ended")
            except BlockingIOError:
                pass
            except OSError as error:
                self._lose(str(error.strerror))
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self._asked = None
            found.append(json.loads(line))
        if self._asked is not None and now() - self.asked_at > PATIENCE_SECONDS:
            self._lose("it is silent")
        self._send_next()
        return found

    def close(self) -> None:
        """End the child, at once."""
        if self._end is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        self._end.close()
        os.close(self._life)
        self._end = None

    def _lose(self, why: str) -> None:
        """The child is gone or to go; what it was asked was perhaps done."""
        lost = self._asked
        self.close()
        self._asked = None
        self._rest = b""
        if lost is not None:
            answer = {"trouble": why}
            self._rest = json.dumps(answer).encode() + b"\n"

    def _send_next(self) -> None:
        if self._asked is not None or not self._waiting:
            return
        if self._end is None:
            self._start()
        assert self._end is not None
        self._asked = self._waiting.pop(0)
        self.asked_at = now()
        with contextlib.suppress(OSError):  # it has ended: the next read says so
            self._end.send(json.dumps(self._asked).encode() + b"\n")

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        life_read, self._life = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _be_child(self._url, self._who, theirs, life_read)
        theirs.close()
        os.close(life_read)
        self._end = ours


def _be_child(url: str, who: str, end: socket.socket, life: int) -> NoReturn:
    """Everything from here on is the child. It has no part of the terminal."""
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTSTP, signal.SIGWINCH):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        _quiet({end.fileno(), life})
        kernel.die_with_pipe(life, os.getpgrp())
        from .gather import serve

        serve(url, who, end)
        code = 0
    finally:
        os._exit(code)


def _quiet(kept: Collection[int]) -> None:
    """Nothing of what we have open but these, and nowhere to print."""
    kernel.close_all_but(kept)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    if null > 2:
        os.close(null)
