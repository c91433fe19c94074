"""One history: faults strike for a while, then all is calm and everything must come to its end."""

from collections import Counter
from collections.abc import Callable

from .database import Database
from .fleet import Fleet, played
from .process import Process
from .server import Server
from .world import Mix, Violation, World

CALM_SECONDS = 60.0  # of simulated time, within which everything must be through
ORDINARY = {
    "quick": 3.0,
    "writes": 3.0,
    "short": 4.0,
    "short, no effect": 2.0,
    "long": 2.0,
    "stubborn": 1.0,
    "fails": 1.0,
    "snoozes": 0.5,
    "hangs": 0.5,
    "hangs for good": 0.3,
    "kills its worker": 0.5,
    "kills its host": 0.2,
}
WEIGHTS = {
    "kill worker": 4.0,
    "kill renewer": 1.0,
    "kill maintainer": 0.3,
    "kill parent": 0.15,
    "stop worker": 2.0,
    "stop helper": 0.7,
    "stop parent": 0.2,
    "cut session": 4.0,
    "restart database": 0.1,
    "database away": 0.03,
    "clock jump": 0.3,
    "cancel": 1.0,
    "requeue": 1.0,
    "term": 0.05,
    "failover": 0.0,
}


class History:
    """A seed, played to its end."""

    def __init__(self, seed: int, mix: Mix, broken: frozenset[str] = frozenset()) -> None:
        self.world = World(seed, mix, broken)
        self.db = Database(self.world)
        self.server = Server(self.world)
        self.fleets = [Fleet(self.world, self.db, self.server) for _ in range(mix.fleets)]
        weights = dict(WEIGHTS | {"failover": 1.0 * mix.forgets}) | mix.faults
        if mix.faults and "only" in mix.faults:
            weights = {name: weight for name, weight in mix.faults.items() if name != "only"}
        self._names = [name for name, weight in weights.items() if weight]
        self._weights = [weights[name] for name in self._names]
        kinds = mix.kinds or ORDINARY
        self._kinds, self._kind_weights = list(kinds), list(kinds.values())

    def play(self, faults: int) -> Counter[str]:
        """Strike until there were so many faults; then see it through. What struck, by name."""
        world = self.world
        with played():
            for fleet in self.fleets:
                fleet.start()
            self._feed()
            self._strike()
            try:
                while world.faults.total() < faults:
                    world.run(world.time + 1.0)
                    if world.mix.resolved_seconds is not None:
                        self.db.look_for_the_left(world.mix.resolved_seconds)
                self._calm_down()
            finally:
                for fleet in self.fleets:
                    fleet.close()
        return world.faults

    # -- work -------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Keep the queue filled."""
        if self.world.calm:
            return
        rng = self.world.rng
        waiting = sum(row.state != "dead" for row in self.db.tasks.values())
        for _ in range(self.world.mix.tasks - waiting):
            (kind,) = rng.choices(self._kinds, self._kind_weights)
            self.db.enqueue(kind, rng.randint(2, 4))
        if self.world.mix.forgets and rng.random() < 0.5:
            self.db.replicate()
        self.world.after(0.3, self._feed)

    # -- faults -----------------------------------------------------------------------------------

    def _strike(self) -> None:
        world = self.world
        if world.calm:
            return
        (name,) = world.rng.choices(self._names, self._weights)
        if getattr(self, "_" + name.replace(" ", "_"))():
            world.fault(name)
        world.after(world.rng.expovariate(1 / world.mix.every_seconds), self._strike)

    def _any(self, wanted: Callable[[Process], bool]) -> Process | None:
        found = [
            process
            for fleet in self.fleets
            if fleet.alive
            for process in fleet.processes.values()
            if not process.dead and wanted(process)
        ]
        return self.world.rng.choice(found) if found else None

    def _kill(self, name: str) -> bool:
        process = self._any(lambda one: one.name == name)
        if process is not None:
            process.die(-9)
        return process is not None

    def _kill_worker(self) -> bool:
        return self._kill("worker")

    def _kill_renewer(self) -> bool:
        return self._kill("renewer")

    def _kill_maintainer(self) -> bool:
        return self._kill("maintainer")

    def _some_fleet(self) -> Fleet | None:
        found = [fleet for fleet in self.fleets if fleet.alive and not fleet.stopped]
        return self.world.rng.choice(found) if found else None

    def _kill_parent(self) -> bool:
        fleet = self._some_fleet()
        if fleet is not None:
            fleet.kill_parent()
        return fleet is not None

    def _stop(self, process: Process | None) -> bool:
        if process is None or process.stopped:
            return False
        process.stop()
        # Without the kernel's timer nothing keeps one that goes on after its lease from going on.
        if self.world.mix.timer and self.world.rng.random() < 0.9:
            longest = 2 * self.world.mix.lease_seconds
            self.world.after(self.world.rng.uniform(0.05, longest), self._continue, process)
        return True

    @staticmethod
    def _continue(process: Process) -> None:
        if not process.dead:
            process.go_on()

    def _stop_worker(self) -> bool:
        return self._stop(self._any(lambda one: one.name == "worker"))

    def _stop_helper(self) -> bool:
        return self._stop(self._any(lambda one: one.name != "worker"))

    def _stop_parent(self) -> bool:
        fleet = self._some_fleet()
        if fleet is None:
            return False
        fleet.stopped = True
        longest = 3 * self.world.mix.lease_seconds
        self.world.after(self.world.rng.uniform(0.1, longest), self._continue_parent, fleet)
        return True

    @staticmethod
    def _continue_parent(fleet: Fleet) -> None:
        if fleet.alive and fleet.stopped:
            fleet.go_on()

    def _cut_session(self) -> bool:
        process = self._any(lambda one: one.session is not None)
        if process is None or process.session is None:
            return False
        process.session.end()
        return True

    def _restart_database(self) -> bool:
        self.server.go_down(self.world.rng.uniform(0.1, 0.5))
        return True

    def _database_away(self) -> bool:
        self.server.go_down(self.world.rng.uniform(1.0, 2 * self.world.mix.lease_seconds))
        return True

    def _failover(self) -> bool:
        self.db.fail_over()
        self.server.go_down(self.world.rng.uniform(0.1, 1.0))
        return True

    def _clock_jump(self) -> bool:
        rng = self.world.rng
        self.db.jumped_at = self.world.time
        self.db.ahead += rng.choice([-3600.0, 3600.0, rng.uniform(-20, 20)])
        return True

    def _cancel(self) -> bool:
        if not self.db.tasks:
            return False
        self.db.cancel(self.world.rng.choice(list(self.db.tasks)))
        return True

    def _requeue(self) -> bool:
        rows = [row for row in self.db.tasks.values() if row.state in ("dead", "scheduled")]
        if rows:
            self.db.requeue(self.world.rng.choice(rows))
        return bool(rows)

    def _term(self) -> bool:
        fleet = self._some_fleet()
        if fleet is not None:
            fleet.told_to_stop()
        return fleet is not None

    # -- the end ----------------------------------------------------------------------------------

    def _calm_down(self) -> None:
        world = self.world
        world.calm = True
        for fleet in self.fleets:
            if fleet.stopped:
                self._continue_parent(fleet)
        # What waits by a clock that was set back since, a person has to call.
        for row in self.db.tasks.values():
            if row.state == "scheduled" and row.run_at > self.db.clock() + CALM_SECONDS:
                self.db.requeue(row)
        until = world.time + CALM_SECONDS
        while self._unfinished() and world.time < until:
            world.run(world.time + 1.0)
        if unfinished := self._unfinished():
            raise Violation(f"not through after {CALM_SECONDS:g} s of calm: {unfinished}")
        self._count()

    def _unfinished(self) -> list[str]:
        found = [
            f"task {row.id} ({row.kind}) {row.state}"
            for row in self.db.tasks.values()
            if row.state != "dead"
        ]
        for fleet in self.fleets:
            if not fleet.alive:
                continue
            parent = fleet.supervisor
            found += [f"{len(parent.renewals.unsettled)} not settled"] * bool(
                parent.renewals.unsettled
            )
            found += ["not handed back"] * bool(parent.renewals.unhanded)
        return found

    def _count(self) -> None:
        """Every task is done once, dead, or was removed."""
        db = self.db
        for task in db.added:
            places = (db.effects.get(task, 0), task in db.tasks, task in db.removed)
            if sum(places) != 1:
                raise Violation(f"task {task} (effects, there, removed): {places}")
