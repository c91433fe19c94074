"""The fork: what a child is given, and what it must not keep of its parent."""

import contextlib
import fcntl
import os
import random
import signal
import sys
import traceback
from typing import NoReturn

from .. import kernel, memfile, room, titles
from ..clock import now
from ..inherited import forget_streams
from ..logpipe import LogPipe
from ..seat import Ends, Seat
from ..text import error_text
from .child import Child
from .role import Role


def spawn(role: Role, seat: Seat, events: int, log: int) -> Child:
    """Fork one child; OSError when the system has no room for it."""
    pipes = _Pipes(role)
    ends = Ends(events, pipes.control[0], pipes.life[0], log, pipes.extra(role, seat))
    # What is buffered now would be written by the child, too.
    sys.stdout.flush()
    sys.stderr.flush()
    # Signals wait until the child has its own handlers: one that arrived in between would run the
    # parent's, in the child.
    every = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
    except OSError:
        pipes.close()
        raise
    else:
        if pid == 0:
            _be_child(role, seat, ends, pipes.output[1])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, every)
    at = now()
    kept = pipes.keep_parents_ends()
    return Child(role, seat.slot, seat.incarnation, pid, at, at, *kept, spare=seat.spare)


class _Pipes:
    """What ties one child to its parent; -1 for what its role does not have."""

    def __init__(self, role: Role) -> None:
        self.output = self.tokens = (-1, -1)
        self.stack = -1
        self._opened: list[int] = []
        try:
            self.control, self.life = self._pipe(), self._pipe()
            if role.captures:
                self.output = self._pipe()
            if role.holds_leases:
                self.tokens = self._pipe()
                self.stack = memfile.new_file()
                self._opened.append(self.stack)
        except OSError:
            self.close()  # else each try would leave fewer for the next
            raise

    def _pipe(self) -> tuple[int, int]:
        pipe = os.pipe()
        self._opened += pipe
        return pipe

    def extra(self, role: Role, seat: Seat) -> dict[str, int]:
        """What the child takes along beside its four ends, by name."""
        extra = role.extra(seat.slot)
        if role.holds_leases:
            tokens, back = self.tokens
            extra = extra | {"tokens": tokens, "tokens_back": back, "stack": self.stack}
        return extra

    def keep_parents_ends(self) -> tuple[int, int, int, int, int]:
        """Close the child's ends; the parent's are control, life, output, tokens and stack."""
        for fd in (self.control[0], self.life[0], self.output[1], self.tokens[1]):
            if fd >= 0:
                os.close(fd)
        kept = (self.control[1], self.life[1], self.output[0], self.tokens[0], self.stack)
        for fd in (self.control[1], self.output[0], self.tokens[0]):
            if fd >= 0:
                os.set_blocking(fd, False)
        return kept

    def close(self) -> None:
        """There will be no child."""
        for fd in self._opened:
            os.close(fd)


def _be_child(role: Role, seat: Seat, ends: Ends, output: int) -> NoReturn:
    """Everything from here on is the child; it never returns into the parent's code."""
    code = 70
    try:
        _leave_parent(role, seat, ends, output)
        code = role.main(seat, ends)
    except BaseException as error:
        with contextlib.suppress(BaseException):
            if isinstance(error, SystemExit) and isinstance(error.code, int | None):
                code = error.code or 0
            elif room.is_lacking(error):
                code = room.NO_ROOM
                sys.stderr.write(f"{error}\n")
            else:
                _tell_crash(role, seat, ends.log, error)
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
        # Not sys.exit: the parent's atexit handlers and buffers are not the child's to run.
        os._exit(code & 0xFF)


def _tell_crash(role: Role, seat: Seat, log: int, error: BaseException) -> None:
    """What it was in one line that no level hides, and where it was among what the child has printed."""
    slot = seat.slot if role.holds_leases else None
    LogPipe(log, role=role.name, slot=slot).error("crashed", error_text(error))
    traceback.print_exception(error)


def _leave_parent(role: Role, seat: Seat, ends: Ends, output: int) -> None:
    """Give up what was the parent's, signals last: until then none may arrive."""
    _reset_signals()
    if role.own_session:
        os.setsid()  # and so a group of its own, which can be killed whole
    kernel.close_all_but({*ends.all(), output} - {-1})
    room.leave_room()
    if output >= 0:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
    forget_streams()
    if role.own_session:
        _no_stdin()
    if role.dies_with_parent:
        _die_with_parent(ends)
    titles.entitle(role.name, seat.slot if role.holds_leases else None)
    random.seed()  # every fork inherits the parent's state
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        handler = signal.getsignal(number)
        if handler is not None and handler not in (signal.SIG_DFL, signal.default_int_handler):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    # Not ignored: programs that a handler starts would inherit that, and be deaf to it for good.
    signal.signal(signal.SIGINT, lambda *_: None)


def _no_stdin() -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    if null > 2:
        os.close(null)


def _die_with_parent(ends: Ends) -> None:
    kernel.die_with_pipe(ends.life, os.getpgrp())
    # The parent may have died before the kernel was told to watch: then the pipe is at its end now.
    os.set_blocking(ends.life, False)
    try:
        if os.read(ends.life, 1) == b"":
            os.killpg(0, signal.SIGKILL)
    except BlockingIOError:
        pass


def set_pipe_size(fd: int, size: int) -> None:
    """Ask for a larger pipe, in bytes; stays as it is where that is not granted."""
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)
