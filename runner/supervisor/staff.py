"""Who should be there: starting who is missing, ending in order at a stop."""

from collections.abc import Sequence

from ..clock import now
from ..config import FleetConfig
from ..text import plural
from ..wire import Order
from .course import Course
from .family import Family
from .goals import Goal
from .means import Means
from .role import Role
from .starts import Starts
from .succession import Succession

LAST_WORDS_SECONDS = 10.0  # how long a stop waits for the renewer to settle what is left
MAINTAINER, RENEWER = "maintainer", "renewer"


class Staff:
    """Compares the family with what the roles and the goal ask for."""

    def __init__(
        self,
        config: FleetConfig,
        roles: Sequence[Role],
        goal: Goal,
        means: Means,
        family: Family,
        course: Course,
        starts: Starts,
    ) -> None:
        self.config = config
        self.roles = roles
        self.goal = goal
        self.family = family
        self.course = course
        self.renewals = means.renewals
        self.starts = starts
        self._groups = len(means.sets)
        self._group_of_slot = [
            means.sets.index(config.queues_of_slot(slot)) for slot in range(config.procs)
        ]
        self.permits = means.permits
        self.log = family.log
        self._no_room_told = ""
        self._idle_told: dict[tuple[int, int], int] = {}
        self.succession = Succession(family, starts, preloaded=config.preload)

    def next_start_at(self) -> float:
        """The local time at which a start that was put off may be tried."""
        return self.starts.next_after(now())

    def fill(self) -> None:
        """Start who is missing."""
        taken = self.family.slots()
        for role in self.roles:
            self._fill(role, taken.get(role.name, set()))

    def _fill(self, role: Role, taken: set[int]) -> None:
        count = role.count
        if role.holds_leases:
            count = self.goal.workers_wanted(self.course.view)
        if len(taken) >= count or now() < self.starts.allowed_at(role.name):
            return
        if role.needs is not None:
            needed = self.family.only(role.needs)
            if needed is None or needed.hello_at is None:
                return
        for slot in range(count):
            if slot not in taken and not self._start(role, slot):
                return

    def _start(self, role: Role, slot: int) -> bool:
        try:
            self.family.spawn(role, slot)
        except OSError as error:
            self.starts.no_room(role.name, now())
            self._tell_no_room(role, error)
            return False
        return True

    def _tell_no_room(self, role: Role, error: OSError) -> None:
        """Say so once, and again when other numbers run."""
        running = len(self.family.workers())
        run = f"{plural(running, 'worker')} run{'s' if running == 1 else ''}"
        text = f"cannot start another {role.name} ({error.strerror}); {run}"
        level = "debug" if text == self._no_room_told else "warning"
        self._no_room_told = text
        self.log.emit(level, "no_room", text)

    def end_in_order(self) -> None:
        """Workers first, the renewer when nothing is left to settle; the log writes last."""
        stop = self.course.stop
        assert stop is not None
        order = min((child.role.stop_order for child in self.family), default=0)
        bound = self.config.grace_seconds + self.config.kill_grace + LAST_WORDS_SECONDS
        patient = now() - stop.at < bound
        for child in self.family:
            if child.role.stop_order != order:
                continue
            if not child.role.holds_leases and self.renewals.unsettled and patient:
                continue  # the renewer writes how they ended, the maintainer that they did
            self.family.send_off(child)

    def grant_permits(self) -> None:
        """Where a drain counts its tasks, let the next ones begin."""
        if self.permits is not None:
            living = {child.hand for child in self.family.workers()}
            for hand in set(range(2 * self.config.procs)) - living:
                self.permits.forget(hand)
            self.permits.top_up(self.course.view.starts, living)

    def count_idle(self) -> None:
        """Tell the maintainer how many there are to wake."""
        maintainer = self.family.only(MAINTAINER)
        if maintainer is None:
            return
        counts = [0] * self._groups
        for child in self.family.workers():
            counts[self._group_of_slot[child.slot]] += child.idle
        for group, count in enumerate(counts):
            key = (maintainer.incarnation, group)
            if self._idle_told.get(key) != count:
                self._idle_told[key] = count
                self.family.tell(maintainer, Order.IDLE, group=group, count=count)
