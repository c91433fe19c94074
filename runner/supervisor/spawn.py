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
from ..seat import Ends, Seat
from .child import Child
from .role import Role


def spawn(role: Role, seat: Seat, events: int, log: int) -> Child:
    """Fork one child; OSError when the system has no room for it."""
    pipes = _pipes(2 + role.captures + role.holds_leases)
    (control_r, control_w), (life_r, life_w) = pipes[:2]
    output_r, output_w = pipes[2] if role.captures else (-1, -1)
    tokens_r, tokens_w = pipes[-1] if role.holds_leases else (-1, -1)
    extra = role.extra(seat.slot)
    stack = _new_stack(pipes) if role.holds_leases else -1
    if role.holds_leases:
        extra = extra | {"tokens": tokens_r, "tokens_back": tokens_w, "stack": stack}
    ends = Ends(events, control_r, life_r, log, extra)
    sys.stdout.flush()
    sys.stderr.flush()
    # Signals wait until the child has its own handlers: one that arrived in between would run the
    # parent's, in the child.
    every = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
    except OSError:
        _close(pipes)
        if stack >= 0:
            os.close(stack)
        raise
    else:
        if pid == 0:
            _be_child(role, seat, ends, output_w)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, every)
    for fd in (control_r, life_r, output_w, tokens_w):
        if fd >= 0:
            os.close(fd)
    for fd in (control_w, output_r, tokens_r):
        if fd >= 0:
            os.set_blocking(fd, False)
    at = now()
    ends_kept = (control_w, life_w, output_r, tokens_r, stack)
    return Child(role, seat.slot, seat.incarnation, pid, at, at, *ends_kept, spare=seat.spare)


def _pipes(count: int) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    try:
        for _ in range(count):
            made.append(os.pipe())
    except OSError:
        _close(made)  # else each try would leave fewer for the next
        raise
    return made


def _new_stack(pipes: list[tuple[int, int]]) -> int:
    try:
        return memfile.new_file()
    except OSError:
        _close(pipes)
        raise


def _close(pipes: list[tuple[int, int]]) -> None:
    for pipe in pipes:
        for fd in pipe:
            os.close(fd)


def _be_child(role: Role, seat: Seat, ends: Ends, output: int) -> NoReturn:
    """Everything from here on is the child; it never returns into the parent's code."""
    code = 70
    try:
        _reset_signals()
        if role.own_session:
            os.setsid()
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
        code = role.main(seat, ends)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 70
    except BaseException as error:
        with contextlib.suppress(BaseException):
            if room.is_lacking(error):
                code = room.NO_ROOM
                sys.stderr.write(f"{error}\n")
            else:
                traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
        # Not sys.exit: the parent's atexit handlers and buffers are not the child's to run.
        os._exit(code & 0xFF)


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
