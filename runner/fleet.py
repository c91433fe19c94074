"""The composition root: a config becomes roles, pipes and a supervisor.

Everything that the children will share is imported here, before the first fork; no connection is open
while there are children.
"""

import os
import socket
import sys
from collections.abc import Sequence
from uuid import UUID, uuid4

from .config import FleetConfig
from .errors import ConfigError
from .maintaining.groups import Group
from .maintaining.tallying import Tallying
from .permits import Permits
from .roles.console import run_console
from .roles.log import Log
from .roles.maintainer import Maintainer
from .roles.renewer import Renewer
from .roles.worker import Worker
from .room import files_needed, make_room
from .seat import Ends, Seat
from .store import schema
from .store.claim import NO_BOUNDS, Bounds
from .store.connect import ask, password
from .supervisor.course import Report
from .supervisor.feed import Feed
from .supervisor.goals import Goal, RunForever
from .supervisor.means import Means
from .supervisor.renewals import Renewals
from .supervisor.role import Role
from .supervisor.spawn import set_pipe_size
from .supervisor.supervisor import Supervisor
from .supervisor.tallies import Tallies
from .terminal import Terminal, is_terminal
from .typenames import TypeNames


def start(
    config: FleetConfig, *, terminal: Terminal | None = None, connect_wait_seconds: float = 60.0
) -> Report:
    """Run a fleet until it is stopped; with the live view on `terminal` if there is one."""
    ask(config.dsn, "start", connect_wait_seconds, schema.check)
    return run(compose(config, uuid4(), RunForever(config.procs), terminal=terminal), terminal)


def run(supervisor: Supervisor, terminal: Terminal | None) -> Report:
    """Run a fleet to its end, and see that the terminal is as it was then."""
    try:
        return supervisor.run()
    finally:
        if terminal is not None:
            terminal.rescue()


def compose(
    config: FleetConfig,
    runner_id: UUID,
    goal: Goal,
    *,
    bounds: Bounds = NO_BOUNDS,
    leased: Sequence[bytes] = (),
    types: TypeNames | None = None,
    terminal: Terminal | None = None,
) -> Supervisor:
    """The fleet of a config: its pipes, its roles, its parent.

    `bounds`: what a drain leaves. `leased`: further rows to renew. `types`: where workers tell the
    names of their handlers. `terminal`: for the live view, which then takes the place of the log.
    """
    limit, workers = make_room(config.procs)
    if not workers:
        raise ConfigError(
            f"open files are limited to {limit}: too few for a fleet", hint=_more_files(config)
        )
    plan = Plan(config, runner_id, bounds, types or TypeNames(), terminal)
    supervisor = Supervisor(config, plan.roles(), goal, plan.means(leased))
    if workers < config.procs:
        text = f"open files are limited to {limit}: room for {workers} of {config.procs} workers"
        supervisor.log.warning("no_room", f"{text}; {_more_files(config)}")
    return supervisor


def _more_files(config: FleetConfig) -> str:
    return f"allow {files_needed(config.procs, 8)} (ulimit -n, or LimitNOFILE= in the unit)"


class Plan:
    """The pipes between the processes, and for each role what it is given of them."""

    def __init__(
        self,
        config: FleetConfig,
        runner_id: UUID,
        bounds: Bounds,
        types: TypeNames,
        terminal: Terminal | None,
    ) -> None:
        self.config = config
        self.runner_id = runner_id
        self.bounds = bounds
        self.types = types
        self.terminal = terminal
        self.feed = Feed(runner_id) if terminal is not None else None
        self.events, self.log = os.pipe(), os.pipe()
        os.set_blocking(self.log[1], False)
        set_pipe_size(self.log[1], 1 << 20)
        self.renewals = Renewals(config.renew_every)
        self.tallies = Tallies()
        self.sets = _sets_of_queues(config)
        self.wakes = [os.pipe() for _ in self.sets]
        for fd in (fd for pipe in self.wakes for fd in pipe):
            os.set_blocking(fd, False)
        self.listening = _listen(config.metrics) if config.metrics else None
        most = config.drain.max_tasks if config.drain is not None else None
        self.permits = Permits(most, 2 * config.procs) if most is not None else None

    def means(self, leased: Sequence[bytes]) -> Means:
        """What the parent works with; `leased`: further rows to renew."""
        return Means(
            self.events,
            self.log[1],
            self.renewals,
            self.tallies,
            self.sets,
            leased,
            self.permits,
            self.feed,
            on_terminal=is_terminal(sys.stderr),
        )

    def roles(self) -> list[Role]:
        """Everybody that there is to be, in the order in which they start."""
        roles = [
            self.writer_role(),
            self.renewer_role(),
            self.maintainer_role(),
            self.worker_role(),
        ]
        if self.config.metrics or self.config.metrics_file:
            roles.append(self.metrics_role())
        return roles

    def metrics_role(self) -> Role:
        """Serves the figures, or writes them to a file. The port is taken before anybody is forked: one
        that cannot be had is told at once, and none is lost with a process."""
        from .roles.metrics import Metrics  # few want it, and an HTTP server takes long to import

        listening = self.listening

        def main(seat: Seat, ends: Ends) -> int:
            return Metrics(self.config, seat, ends).run()

        return Role(
            "metrics",
            main,
            stop_order=2,
            dies_with_parent=True,
            needs="renewer",
            captures=True,
            extra=lambda _: {} if listening is None else {"listening": listening.fileno()},
        )

    def writer_role(self) -> Role:
        """Shows what goes on, and the log; the last to stop."""
        if self.terminal is None or self.feed is None:
            return self.log_role()
        return self.console_role(self.terminal, self.feed)

    def console_role(self, terminal: Terminal, feed: Feed) -> Role:
        """The live view. It alone stays in the terminal's session."""
        parent, ends_of_feed = os.getpid(), feed.console_end.fileno()

        def main(seat: Seat, ends: Ends) -> int:
            return run_console(self.config, terminal, parent, seat, ends)

        return Role(
            "console",
            main,
            stop_order=3,
            own_session=False,
            extra=lambda _: {"read": self.log[0], "feed": ends_of_feed},
        )

    def log_role(self) -> Role:
        """Writes the log as lines."""

        def main(seat: Seat, ends: Ends) -> int:
            form, level = self.config.log_format, self.config.log_level
            secret = password(self.config.dsn)
            return Log(ends.extra["read"], form, level, seat, ends, secret).run()

        return Role("log", main, stop_order=3, extra=lambda _: {"read": self.log[0]})

    def renewer_role(self) -> Role:
        """Renews and settles when the parent asks."""

        def main(seat: Seat, ends: Ends) -> int:
            return Renewer(self.config, ends.extra["requests"], seat, ends).run()

        requests = self.renewals.renewer_end.fileno()
        return Role(
            "renewer",
            main,
            stop_order=2,
            dies_with_parent=True,
            captures=True,
            extra=lambda _: {"requests": requests},
        )

    def maintainer_role(self) -> Role:
        """Wakes the idle, and makes the passes."""

        def main(seat: Seat, ends: Ends) -> int:
            groups = [Group(one, ends.extra[f"wake{i}"]) for i, one in enumerate(self.sets)]
            tallying = Tallying(ends.extra["tallies"], self.types)
            return Maintainer(
                self.config, self.runner_id, groups, seat, ends, tallying, self.bounds
            ).run()

        return Role(
            "maintainer",
            main,
            stop_order=1,
            dies_with_parent=True,
            needs="renewer",
            captures=True,
            extra=lambda _: (
                {f"wake{i}": write for i, (_, write) in enumerate(self.wakes)}
                | {"tallies": self.tallies.reader_end.fileno(), "types": self.types.fd}
            ),
        )

    def worker_role(self) -> Role:
        """Claims tasks and runs their handlers; the first to stop."""

        def main(seat: Seat, ends: Ends) -> int:
            return Worker(
                self.config, self.runner_id, seat, ends, self.types, self.bounds, self.permits
            ).run()

        return Role(
            "worker",
            main,
            dies_with_parent=True,
            needs="renewer",
            holds_leases=True,
            captures=True,
            extra=self._worker_ends,
        )

    def _worker_ends(self, slot: int) -> dict[str, int]:
        read, write = self.wakes[self.sets.index(self.config.queues_of_slot(slot))]
        extra = {"wake": read, "wake_next": write, "types": self.types.fd}
        return extra | (self.permits.ends if self.permits else {})


def _sets_of_queues(config: FleetConfig) -> list[tuple[str, ...] | None]:
    """The different sets of queues that slots serve, in the order of the slots."""
    return list(dict.fromkeys(config.queues_of_slot(slot) for slot in range(config.procs)))


def _listen(address: tuple[str, int]) -> socket.socket:
    """A listening socket; ConfigError where the address cannot be had."""
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=16)
    except OSError as error:
        why = f"cannot serve metrics on {host}:{port}: {error.strerror or error}"
        raise ConfigError(why) from None
