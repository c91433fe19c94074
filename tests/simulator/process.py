"""Processes as the kernel sees them, and sessions as the server sees them."""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from runner.wire import NO_ID, Event, Kind, Order

from .world import World

if TYPE_CHECKING:
    from .database import Database, Holding
    from .fleet import Fleet

Body = Generator[Any, Any, Any]
PARK = object()  # wait for whoever wakes us
CUT = object()  # what arrives instead of a reply
NUDGE = object()  # what ends an interruptible wait early


class Cut(Exception):
    """The connection is gone."""


class Interrupted(Exception):
    """TERM, while the handler runs."""


class Idle:
    """An interruptible wait."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Session:
    """A connection with its session in the server."""

    __slots__ = ("over", "process", "waits", "worker")

    def __init__(self, process: "Process") -> None:
        self.process = process
        self.worker = NO_ID
        self.over = False
        self.waits = -1  # the token of who waits for a reply

    def end(self) -> None:
        """Nothing of it is executed any more, and who waits hears of it."""
        self.over = True
        if self.waits >= 0:
            self.process.resume(self.waits, CUT)


class Process:
    """A body that runs until it waits; it can be stopped, continued, interrupted and killed."""

    name = "process"

    def __init__(self, world: World, db: "Database", fleet: "Fleet", incarnation: int) -> None:
        self.world, self.db, self.fleet, self.incarnation = world, db, fleet, incarnation
        self.pid = world.new_pid()
        self.dead = self.stopped = self.armed = self.told_to_stop = False
        self.code: int | None = None
        self.holding: Holding | None = None  # whose handler runs
        self.session: Session | None = None
        self.timer_at: float | None = None
        self._body = self.run()
        self._token = 0
        self._nudgeable = False
        self._missed: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._told_at = 0.0
        world.procs[self.pid] = self
        world.after(world.rng.uniform(0.005, 0.05), self.resume, 0, None)

    def run(self) -> Body:
        raise NotImplementedError

    # -- its time ---------------------------------------------------------------------------------

    def resume(self, token: int, value: object) -> None:
        if self.dead or token != self._token:
            return
        if self.stopped:
            self._missed.append((self.resume, (token, value)))
            return
        self._token += 1
        self._nudgeable = False
        try:
            self._wait(self._body.send(value if token else None))
        except StopIteration as end:
            self.die(end.value or 0)

    def _wait(self, wait: object) -> None:
        if wait is PARK:
            return
        if isinstance(wait, Idle):
            self._nudgeable = True
            wait = wait.seconds
        assert isinstance(wait, float | int)
        self.world.after(wait, self.resume, self._token, None)

    def nudge(self) -> None:
        if self._nudgeable:
            self.resume(self._token, NUDGE)

    def interrupt(self) -> None:
        """TERM: counts only while a handler runs, and once."""
        if self.stopped:
            self._missed.append((self.interrupt, ()))
        elif self.armed and not self.dead:
            self.armed = False
            self._token += 1
            try:
                self._wait(self._body.throw(Interrupted()))
            except StopIteration as end:
                self.die(end.value or 0)

    def stop(self) -> None:
        self.stopped = True

    def go_on(self) -> None:
        self.stopped = False
        missed, self._missed = self._missed, []
        for call, values in missed:
            call(*values)

    # -- its end ----------------------------------------------------------------------------------

    def kill(self, slowly: bool = False) -> None:
        """SIGKILL; it may take the kernel a while."""
        rng = self.world.rng
        late = rng.uniform(0, 0.9) if slowly and rng.random() < 0.1 else 0.0005
        self.world.after(late, self.die, -9)

    def set_timer(self, at: float | None) -> None:
        """The kernel's own timer."""
        self.timer_at = at if self.world.mix.timer and "no timer" not in self.world.broken else None
        if self.timer_at is not None:
            self.world.at(self.timer_at, self._strike, self.timer_at)

    def _strike(self, at: float) -> None:
        if self.timer_at == at:
            self.kill(slowly=True)

    def die(self, code: int) -> None:
        if self.dead:
            return
        self.dead = True
        self.code = code
        if self.holding is not None:
            self.db.over(self.holding)
            self.holding = None
        self.bury()
        self.fleet.died(self)

    def holds_no_more(self, worker: bytes) -> bool:
        """Whether it is dead, or has another identity by now."""
        return self.dead

    def bury(self) -> None:
        """Close what it had open."""

    # -- its parent -------------------------------------------------------------------------------

    def say(self, kind: Kind, **fields: Any) -> None:
        self.fleet.hear(Event(kind, self.incarnation, **fields))

    def tell(self, order: Order, at: float) -> None:
        """An order on its control pipe; a thread that does not come to run hears late."""
        rng = self.world.rng
        late = 0.0005
        if not self.world.calm and rng.random() < 0.02:
            self.world.fault("deaf")
            late = rng.uniform(0.1, self.world.mix.lease_seconds)
        self._told_at = max(self._told_at, self.world.time + late)
        self.world.at(self._told_at, self._hear, order, at)

    def _hear(self, order: Order, at: float) -> None:
        if self.dead:
            return
        if self.stopped:
            self._missed.append((self._hear, (order, at)))
            return
        self.obey(order, at)

    def obey(self, order: Order, at: float) -> None:
        if order is Order.STOP:
            self.told_to_stop = True
            self.nudge()

    # -- its database -----------------------------------------------------------------------------

    def connect(self) -> Body:
        """One try; Cut when the server is not there."""
        yield self.world.rng.uniform(0.001, 0.01)
        self.session = self.fleet.server.connect(self)
        if self.session is None:
            raise Cut

    def ask(self, run: Callable[[], Any], bound: float = 3.0) -> Body:
        """Send a statement; its result, or Cut."""
        session = self.session
        if session is None or session.over:
            self.session = None
            raise Cut
        self._send(session, run, bound)
        reply = yield PARK
        session.waits = -1
        if reply is CUT:
            self.session = None
            raise Cut
        return reply

    def _send(self, session: Session, run: Callable[[], Any], bound: float) -> None:
        """What becomes of it: done at once, or cut before or behind it, or answered late, or held up for
        longer than we wait, and done then all the same if nobody has ended the session."""
        world = self.world
        rng = world.rng
        session.waits = self._token
        late = rng.uniform(0.0002, 0.003)
        fate = rng.random() / world.mix.fates if not world.calm and world.mix.fates else 1.0
        if fate >= 1.0:
            world.after(late, self._execute, session, self._token, run, True)
        elif fate < 0.25:
            world.fault("cut before")
            world.after(late, session.end)
        elif fate < 0.5:
            world.fault("cut behind")
            world.after(late, self._execute, session, self._token, run, False)
        elif fate < 0.7:
            world.fault("late reply")
            world.after(
                late, self._execute, session, self._token, run, True, rng.uniform(0.0, bound)
            )
        else:
            stall = rng.uniform(0.05, world.mix.longest_stall_seconds)
            world.fault("stall")
            world.after(stall, self._execute, session, self._token, run, True)
            if stall > bound:  # we give up, and the server does it later
                world.after(bound, self.resume, self._token, CUT)

    def _execute(
        self,
        session: Session,
        token: int,
        run: Callable[[], Any],
        answered: bool,
        late: float = 0.0,
    ) -> None:
        if session.over or not self.fleet.server.up:
            session.end()
            return
        result = run()
        if answered and late:
            self.world.after(late, self.resume, token, result)
        elif answered:
            self.resume(token, result)
        else:
            session.end()
