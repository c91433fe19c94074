"""The children: who they are, and the few things that a parent does to one."""

import contextlib
import os
import selectors
import signal
from collections.abc import Iterator

from .. import postmortem
from ..logpipe import LogPipe
from ..seat import Seat
from ..wire import NO_ID, Order, pack_order
from . import reaper
from .child import Child, Why
from .outputs import Outputs
from .role import Role
from .spawn import spawn


class Family:
    """The table of living children, with the descriptors that tie the parent to them."""

    def __init__(self, events: int, log_fd: int) -> None:
        self._events = events
        self._log_fd = log_fd
        self.log = LogPipe(log_fd, role="supervisor")
        self.selector = selectors.DefaultSelector()
        self._outputs = Outputs(self.log)
        self._incarnations = 0
        self.by_pid: dict[int, Child] = {}
        self.by_incarnation: dict[int, Child] = {}

    # -- who --------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Child]:
        # A copy: children are buried while others are looked at.
        return iter(list(self.by_pid.values()))

    def __len__(self) -> int:
        return len(self.by_pid)

    def workers(self) -> list[Child]:
        """The children that hold leases."""
        return [child for child in self.by_pid.values() if child.role.holds_leases]

    def slots(self) -> dict[str, set[int]]:
        """The slots that are taken, by role."""
        found: dict[str, set[int]] = {}
        for child in self.by_pid.values():
            found.setdefault(child.role.name, set()).add(child.slot)
        return found

    def only(self, role: str) -> Child | None:
        """The child in a role that has one."""
        for one in self.by_pid.values():
            if one.role.name == role:
                return one
        return None

    def with_identity(self, worker: bytes) -> Child | None:
        """The child that has this worker id now."""
        if worker == NO_ID:
            return None
        return next((one for one in self.by_pid.values() if one.worker == worker), None)

    # -- what is done to them ---------------------------------------------------------------------

    def spawn(self, role: Role, slot: int, *, spare: bool = False) -> Child:
        """Start one; OSError when the system has no room for it."""
        self._incarnations += 1
        seat = Seat(role.name, slot, self._incarnations, spare)
        child = spawn(role, seat, self._events, self._log_fd)
        self.by_pid[child.pid] = child
        self.by_incarnation[child.incarnation] = child
        if child.output >= 0:
            self.selector.register(child.output, selectors.EVENT_READ, child)
        self.log.debug("spawned", f"{child.name} is process {child.pid}")
        return child

    def tell(
        self, child: Child, order: Order, at: float = 0.0, *, group: int = 0, count: int = 0
    ) -> None:
        """Send an order. A child that does not read its pipe gets no extension: that is its end."""
        with contextlib.suppress(OSError):
            os.write(child.control, pack_order(order, at, group=group, count=count))

    def send_off(self, child: Child) -> None:
        """Ask one to leave when it is through with what it has in hand."""
        if not child.stopping:
            child.stopping = True
            self.tell(child, Order.STOP)

    def interrupt(self, child: Child, why: Why) -> None:
        """TERM, once: the handler is asked to give up."""
        child.term_for = why
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGTERM)

    def ask_stack(self, child: Child) -> None:
        """Have one write down where its handler stands: it is about to be killed."""
        if child.work is not None and child.stack >= 0:
            child.asked_stack_of = child.work.fence
            postmortem.ask(child.pid, child.stack)

    def kill(self, child: Child, why: Why) -> None:
        """KILL, to the whole group."""
        if child.kill_for is None:
            child.kill_for = why
            if why is not Why.STOP:
                self.log.warning("kill", f"killing {child.name}: {why.value}", slot=child.slot)
            reaper.kill_group(child.pid)

    def read_output(self, child: Child) -> None:
        """Forward what one has printed."""
        if not self._outputs.read(child):
            self._close_output(child)

    def remove(self, child: Child) -> None:
        """One has been reaped: its last output is read, and its descriptors are closed."""
        del self.by_pid[child.pid]
        del self.by_incarnation[child.incarnation]
        while child.output >= 0 and _readable(child.output):
            self.read_output(child)
        self._close_output(child)
        for fd in (child.control, child.life, child.tokens, child.stack):
            if fd >= 0:
                os.close(fd)

    def _close_output(self, child: Child) -> None:
        if child.output >= 0:
            self.selector.unregister(child.output)
            os.close(child.output)
            child.output = -1


def _readable(fd: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        return bool(selector.select(0))
