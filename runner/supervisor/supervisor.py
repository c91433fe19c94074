"""The parent of a fleet: one loop that waits on nothing but its own selector.

It holds no database connection, no thread and no terminal, so that nothing but its own death stops it
from renewing leases and killing whoever lost theirs.
"""

import contextlib
import os
import selectors
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .. import kernel
from ..clock import now
from ..config import FleetConfig
from ..logpipe import LogPipe
from ..wire import NO_ID, Event, EventReader, How, Kind, Order, Outcome, Settle, pack_order
from . import reaper
from .child import Child, Stop, Why
from .goals import Goal, View
from .outputs import Outputs
from .permits import Permits
from .renewals import Renewals
from .role import Restart, Role
from .signals import Traps
from .spawn import set_pipe_size, spawn
from .starts import Starts

SAME_STOP_SECONDS = 0.5
LAST_WORDS_SECONDS = 10.0  # how long a stop waits for the renewer to settle what is left
BURST = 8  # events in one read that make the loop pause, so that the next read brings many, too
PAUSE_SECONDS = 0.001
RENEWER, MAINTAINER = "renewer", "maintainer"


@dataclass
class Report:
    """How a fleet ended."""

    exit_code: int
    reason: str
    tally: Counter[Outcome]
    starts: int
    seconds: float


class Supervisor:
    """Runs children in roles until the goal is reached or a signal stops it."""

    def __init__(
        self,
        config: FleetConfig,
        roles: Sequence[Role],
        goal: Goal,
        renewals: Renewals,
        events: tuple[int, int],
        log_fd: int,
        *,
        groups: Sequence[tuple[str, ...] | None] = (None,),
        leased: Sequence[bytes] = (),
        permits: Permits | None = None,
        on_terminal: bool = False,
    ) -> None:
        self.config = config
        self.roles = roles
        self.goal = goal
        self.renewals = renewals
        self.groups = groups  # the sets of queues that idle workers are counted by
        self.leased = leased  # rows that are renewed beside the workers': a drain's lock
        self.permits = permits
        self.on_terminal = on_terminal
        self.log_fd = log_fd
        self.log = LogPipe(log_fd, role="supervisor")
        self.events_read, self.events_write = events
        self.children: dict[int, Child] = {}  # by pid
        self.view = View(started_at=now())
        self.stop: Stop | None = None
        self.exit_code = 0
        self.reason = "stopped"
        self.dead_of_limit: set[int] = set()
        self._reader = EventReader()
        self._strays_told = 0
        self._starts = Starts()
        self._outputs = Outputs(self.log)
        self._incarnations = 0
        self._held: dict[bytes, set[int]] = {}
        self._idle_told: dict[int, int] = {}
        self._to_reload: list[int] = []  # pids of workers that run the old code
        self._by_incarnation: dict[int, Child] = {}

    # -- the story --------------------------------------------------------------------------------

    def run(self) -> Report:
        """Run the fleet to its end."""
        self.open()
        try:
            while not self.over():
                self.wait()
                self.read_signals()
                self.read_events()
                self.reap_children()
                self.renew_leases()
                self.kill_overdue()
                self.manage_children()
                self.look_at_goal()
        finally:
            self.close()
        seconds = now() - self.view.started_at
        return Report(self.exit_code, self.reason, self.view.tally, self.view.starts, seconds)

    def open(self) -> None:
        """Take the signals, become the one that orphans come to, and open the selector."""
        kernel.become_subreaper()
        self._spared = kernel.children_of(os.getpid())
        self.traps = Traps()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.traps.fd, selectors.EVENT_READ)
        self.selector.register(self.events_read, selectors.EVENT_READ)
        os.set_blocking(self.events_read, False)
        set_pipe_size(self.events_read, 1 << 20)

    def close(self) -> None:
        """Leave nobody behind, whatever ended the loop."""
        for child in list(self.children.values()):
            reaper.kill_group(child.pid)
            self._forget(child, reaper.reap(child.pid))
        self.traps.close()
        self.selector.close()

    def over(self) -> bool:
        """The stop is done: no child is left."""
        return self.stop is not None and not self.children

    # -- waiting ----------------------------------------------------------------------------------

    def wait(self) -> None:
        """Sleep until something can be read, or the next deadline."""
        for key, _ in self.selector.select(max(0.0, self._next_deadline() - now())):
            child: Child | None = key.data
            if child is not None and not self._outputs.read(child):
                self._close_output(child)

    def _next_deadline(self) -> float:
        at = now()
        deadlines = [at + 1.0, self.renewals.due_at]
        for child in self.children.values():
            doom = self._doom(child, at)
            deadlines.append(doom.kill_at if child.term_for else min(doom.term_at, doom.kill_at))
        return min(deadlines) if not self._waiting_to_start() else at + 0.02

    def _waiting_to_start(self) -> bool:
        return self.stop is None and any(
            self._starts.allowed_at(role.name) > now() for role in self.roles
        )

    # -- signals ----------------------------------------------------------------------------------

    def read_signals(self) -> None:
        """TERM and INT stop, in two stages; HUP reloads, or stops where the terminal is gone."""
        for number in self.traps.read():
            if number in (signal.SIGTERM, signal.SIGINT) or (number == signal.SIGHUP and self.on_terminal):
                self._stop_by(number)
            elif number == signal.SIGHUP and not self._to_reload:
                self._to_reload = [child.pid for child in self._workers()]
                self.log.info("reload", f"reloading {len(self._to_reload)} workers")

    def _stop_by(self, number: signal.Signals) -> None:
        at = now()
        if self.stop is None:
            self.begin_stop(number.name)
            if self.config.drain is not None:
                self.exit_code = 128 + number
        elif self.stop.forced_at is None and at - self.stop.at >= SAME_STOP_SECONDS:
            self.stop.forced_at = at
            self.exit_code = 128 + number
            self.log.info("forced", "stopping at once")

    def begin_stop(self, reason: str) -> None:
        """No new claims; what runs gets the grace."""
        if self.stop is not None:
            return
        self.stop = Stop(now())
        self.reason = reason
        grace = f"{self.config.grace_seconds:g} s"
        busy = sum(child.work is not None for child in self._workers())
        again = f", up to {grace}; again to force" if self.on_terminal else f", up to {grace}"
        self.log.info("stopping", f"stopping ({reason}): waiting for {busy} tasks{again}")

    # -- events -----------------------------------------------------------------------------------

    def read_events(self) -> None:
        """Take in what children said, in bulk."""
        seen = 0
        while True:
            try:
                data = os.read(self.events_read, 1 << 18)
            except BlockingIOError:
                break
            at = now()
            for event in self._reader.feed(data):
                seen += 1
                self._hear(event, at)
            if len(data) < 1 << 18:
                break
        if self._reader.strays > self._strays_told:
            self._strays_told = self._reader.strays
            self.log.warning("stray", "bad bytes on the event pipe were skipped")
        if seen > BURST:
            signal.sigtimedwait([], PAUSE_SECONDS)

    def _hear(self, event: Event, at: float) -> None:
        child = self._by_incarnation.get(event.incarnation)
        if child is None:
            return
        first_hello = event.kind is Kind.HELLO and child.hello_at is None
        child.hear(event, at)
        match event.kind:
            case Kind.HELLO if first_hello:
                self._starts.succeeded(child.role.name)
                if child.role.name == RENEWER:
                    self.renewals.start_over()
            case Kind.REGISTERED:
                self.renewals.due_at = at
            case Kind.STARTED:
                self.view.starts += 1
            case Kind.FINISHED:
                self._count(child, Outcome(event.flag))
            case Kind.PROMOTED:
                self.view.changed_at = at
            case Kind.BACKLOG:
                self.view.backlog = event.count
            case Kind.RENEWED | Kind.LOST | Kind.HELD | Kind.ANSWERED | Kind.SETTLED:
                self._hear_renewer(event, at)

    def _hear_renewer(self, event: Event, at: float) -> None:
        child = self._child_of(event.worker)
        match event.kind:
            case Kind.RENEWED if child is not None:
                child.deadline = event.at
                self._tell(child, Order.EXTEND, event.at)
                self._held[event.worker] = set()
            case Kind.HELD:
                self._held.setdefault(event.worker, set()).add(event.fence)
            case Kind.ANSWERED:
                self._judge_held(event.at)
                self.renewals.answered()
                self.view.database_away_since = None
            case Kind.LOST if child is not None:
                self.log.warning("lost", f"{child.name} lost its lease", slot=child.slot)
                child.taken = True
            case Kind.SETTLED:
                self.renewals.settled(event.worker)
                self.view.changed_at = at
                if event.flag:
                    self.view.tally[Outcome(event.flag)] += 1

    def _judge_held(self, asked_at: float) -> None:
        """A task that was running before we asked and is not among the running rows was taken away:
        cancelled, requeued or swept elsewhere."""
        for child in self._workers():
            work, held = child.work, self._held.get(child.worker)
            if work is None or held is None or work.ending or work.started_at >= asked_at:
                continue
            if work.fence not in held:
                child.taken = True
        self._held.clear()

    def _count(self, child: Child, outcome: Outcome) -> None:
        self.view.changed_at = now()
        self.view.tally[outcome] += 1
        child.done += outcome is Outcome.OK
        child.failed += outcome in (Outcome.RETRIED, Outcome.DEAD)

    # -- deaths -----------------------------------------------------------------------------------

    def reap_children(self) -> None:
        """Bury the dead: ours are settled and replaced, strangers are taken off the table quietly."""
        while (pid := reaper.next_dead()) is not None:
            child = self.children.get(pid)
            if child is None:
                reaper.reap(pid)
                continue
            reaper.kill_group(pid)
            self.read_events()  # all that it said before it died counts
            self._forget(child, reaper.reap(pid))
            reaper.kill_strays(self.children, self._spared)

    def _forget(self, child: Child, death: reaper.Death) -> None:
        del self.children[child.pid]
        del self._by_incarnation[child.incarnation]
        while child.output >= 0 and self._outputs.read(child):
            if not self._readable(child.output):
                break
        self._close_output(child)
        os.close(child.control)
        os.close(child.life)
        self.view.changed_at = now()
        self._tell_of(child, death)
        if child.worker != NO_ID and child.role.holds_leases:
            self._settle(child, death)
        if child.hello_at is None and self.stop is None:
            self._failed_start(child, death)
        if child.role.name == RENEWER:
            self.renewals.empty()

    @staticmethod
    def _readable(fd: int) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(fd, selectors.EVENT_READ)
            return bool(selector.select(0))

    def _settle(self, child: Child, death: reaper.Death) -> None:
        how = child.how_it_ended(now(), death.by_kill and child.kill_for is None)
        cause = self._cause(child, death, how)
        work = child.work
        for worker in (*child.former, child.worker):
            if work is None:
                self.renewals.settle(Settle(worker, how))
            else:
                self.renewals.settle(Settle(worker, how, work.task, work.fence, cause))

    @staticmethod
    def _cause(child: Child, death: reaper.Death, how: How) -> str:
        why = child.kill_for or child.term_for
        if how is How.LEASE_LOST:
            return Why.LEASE.value
        return why.value if why is not None else death.cause

    def _tell_of(self, child: Child, death: reaper.Death) -> None:
        why = child.kill_for or (child.term_for if death.code else None)
        text = why.value if why else death.cause
        fields = {"slot": child.slot, "pid": child.pid}
        if child.work is not None:
            told = f"{child.name} ended in task {child.work.task}: {text}"
            self.log.warning("worker_died", told, task=child.work.task, **fields)
        elif self.stop is None and not child.stopping and not child.refused:
            self.log.warning("child_died", f"{child.name} ended: {text}", **fields)
        else:
            self.log.debug("child_ended", f"{child.name} ended", **fields)

    def _failed_start(self, child: Child, death: reaper.Death) -> None:
        self._starts.failed(child.role.name, now())
        if child.refused and not self._anyone_worked():
            self.exit_code = child.refused
            self.begin_stop("could not start")
        elif self._starts.hopeless:
            self.exit_code = child.refused or 70
            self.log.error("fatal", f"{child.role.name}s keep dying at start: {death.cause}")
            self.begin_stop("could not start")

    def _anyone_worked(self) -> bool:
        return any(child.hello_at is not None for child in self._workers())

    # -- leases -----------------------------------------------------------------------------------

    def renew_leases(self) -> None:
        """Ask the renewer for every worker that may live on; a renewer that does not answer is
        replaced, like anybody who falls silent."""
        at = now()
        renewer = self._only(RENEWER)
        if renewer is None or renewer.hello_at is None:
            self.view.database_away_since = self.view.database_away_since or at
            return
        if at >= self.renewals.due_at:
            self.renewals.ask(self._workers(), self.leased, at)
        asked_at = self.renewals.asked_at
        if asked_at is not None and at - asked_at > 2 * self.renewals.every_seconds:
            self.view.database_away_since = self.view.database_away_since or asked_at
            if at - max(asked_at, renewer.heard_at) > 2 * self.renewals.every_seconds + 1.0:
                self._kill(renewer, Why.SILENT)

    def kill_overdue(self) -> None:
        """TERM, then KILL, whoever is past its time."""
        at = now()
        for child in list(self.children.values()):
            doom = self._doom(child, at)
            if at >= doom.kill_at:
                self._kill(child, doom.why)
            elif at >= doom.term_at and child.term_for is None and child.work is not None:
                child.term_for = doom.why
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGTERM)

    def _doom(self, child: Child, at: float):  # type: ignore[no-untyped-def]
        return child.doom(at, self.config, self.stop, self.config.boot_timeout_seconds)

    def _kill(self, child: Child, why: Why) -> None:
        if child.kill_for is not None:
            return
        child.kill_for = why
        if why is not Why.STOP:
            self.log.warning("kill", f"killing {child.name}: {why.value}", slot=child.slot)
        reaper.kill_group(child.pid)

    # -- children ---------------------------------------------------------------------------------

    def manage_children(self) -> None:
        """Start who is missing; at a stop, end them in order."""
        if self.stop is not None:
            self._stop_in_order()
            return
        for role in self.roles:
            if role.restart is Restart.ALWAYS:
                self._fill(role)
        self._reload_next()
        self._tell_idle()
        if self.permits is not None:
            self.permits.top_up(self.view.starts, self._workers())

    def _fill(self, role: Role) -> None:
        count = self.goal.workers_wanted(self._look()) if role.holds_leases else role.count
        taken = {child.slot for child in self.children.values() if child.role is role}
        if len(taken) >= count or now() < self._starts.allowed_at(role.name):
            return
        if role.needs is not None:
            needed = self._only(role.needs)
            if needed is None or needed.hello_at is None:
                return
        for slot in range(count):
            if slot not in taken and not self._spawn(role, slot):
                return

    def _spawn(self, role: Role, slot: int) -> bool:
        self._incarnations += 1
        try:
            child = spawn(role, slot, self._incarnations, self.events_write, self.log_fd)
        except OSError as error:
            self._starts.failed(role.name, now())
            self._starts.in_a_row = 0  # no room is a reason to wait, not to give up
            running = len(self._workers())
            self.log.warning(
                "no_room", f"cannot start another {role.name} ({error.strerror}); {running} run"
            )
            return False
        self.children[child.pid] = child
        self._by_incarnation[child.incarnation] = child
        if child.output >= 0:
            self.selector.register(child.output, selectors.EVENT_READ, child)
        self.log.debug("spawned", f"{child.name} is process {child.pid}", slot=slot)
        return True

    def _stop_in_order(self) -> None:
        """Workers first, and the renewer when nothing is left to settle; the log writes last."""
        order = min((child.role.stop_order for child in self.children.values()), default=0)
        patience = self.stop is not None and now() - self.stop.at < (
            self.config.grace_seconds + self.config.kill_grace + LAST_WORDS_SECONDS
        )
        renewer = self._only(RENEWER)
        for child in self.children.values():
            if child.stopping or child.role.stop_order != order:
                continue
            if child is renewer and self.renewals.unsettled and patience:
                continue
            child.stopping = True
            self._tell(child, Order.STOP)

    def _reload_next(self) -> None:
        workers = {child.pid: child for child in self._workers()}
        self._to_reload = [pid for pid in self._to_reload if pid in workers]
        everyone_ready = all(child.registered for child in workers.values())
        if self._to_reload and everyone_ready and not any(c.stopping for c in workers.values()):
            child = workers[self._to_reload[0]]
            child.stopping = True
            self._tell(child, Order.STOP)

    def _tell_idle(self) -> None:
        """The maintainer wakes as many as there are."""
        maintainer = self._only(MAINTAINER)
        if maintainer is None:
            return
        counts = dict.fromkeys(range(len(self.groups)), 0)
        for child in self._workers():
            counts[self.group_of(child.slot)] += child.idle
        for group, count in counts.items():
            key = maintainer.incarnation * len(self.groups) + group
            if self._idle_told.get(key) != count:
                self._idle_told[key] = count
                self._tell(maintainer, Order.IDLE, group=group, count=count)

    def group_of(self, slot: int) -> int:
        """Which set of queues a slot serves, as an index into `groups`."""
        return self.groups.index(self.config.queues_of_slot(slot))

    # -- the goal ---------------------------------------------------------------------------------

    def look_at_goal(self) -> None:
        """Begin the stop when the goal is reached; ask workers that idle to look again until then."""
        if self.stop is not None:
            return
        view = self._look()
        if (reason := self.goal.reason_to_end(view)) is not None:
            self.begin_stop(reason)
            if reason == "database":
                self.exit_code = 69
                self.log.error("fatal", "the database has been away for too long")
        elif self.config.drain is not None:
            for child in view.workers:
                if child.idle and child.idle_look <= view.changed_at and child.idle_look >= 0:
                    child.idle_look = -1.0  # asked; its answer sets it
                    self._tell(child, Order.LOOK)

    def _look(self) -> View:
        self.view.workers = [child for child in self._workers() if not child.stopping]
        self.view.now = now()
        self.view.unsettled = len(self.renewals.unsettled)
        return self.view

    # -- small things -----------------------------------------------------------------------------

    def _workers(self) -> list[Child]:
        return [child for child in self.children.values() if child.role.holds_leases]

    def _only(self, role: str) -> Child | None:
        found = (child for child in self.children.values() if child.role.name == role)
        return next(found, None)

    def _child_of(self, worker: bytes) -> Child | None:
        found = (child for child in self.children.values() if child.worker == worker)
        return next(found, None) if worker != NO_ID else None

    def _tell(
        self, child: Child, order: Order, at: float = 0.0, *, group: int = 0, count: int = 0
    ) -> None:
        # A child that does not read its pipe gets no extension, and that is its end.
        with contextlib.suppress(OSError):
            os.write(child.control, pack_order(order, at, group=group, count=count))

    def _close_output(self, child: Child) -> None:
        if child.output >= 0:
            with contextlib.suppress(KeyError):
                self.selector.unregister(child.output)
            os.close(child.output)
            child.output = -1
