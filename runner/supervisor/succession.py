"""Replacing workers without a gap: the heir is ready before the one that it follows is sent off.

Who runs old code (outdated, at a reload), has grown too large (worn) or has done as many tasks as it is
to do (spent) is followed one by one, so that there are never fewer workers than there should be, and one
more for a moment.
"""

from ..clock import now
from .child import Child
from .family import Family
from .starts import Starts

MIB = 1 << 20
HEIR_SECONDS = 5.0  # an heir without a connection for so long is given that of whom it follows


class Succession:
    """Which worker is to be followed, and by whom."""

    def __init__(self, family: Family, starts: Starts, *, preloaded: bool = False) -> None:
        self.family = family
        self.starts = starts
        self.log = family.log
        self.preloaded = preloaded  # each heir has the code that the parent has loaded
        self._old: Child | None = None
        self._heir: Child | None = None

    def reload(self) -> None:
        """Every worker that runs now is to be followed by one that loads the app anew."""
        if self.preloaded:
            self._give_up_reload("with --preload new code needs a restart")
            return
        workers = self.family.workers()
        for child in workers:
            child.outdated = True
        self.log.info("reload", f"reloading {len(workers)} workers")

    def step(self) -> None:
        """Go on by one step, if it is time for one."""
        if self._old is not None:
            self._watch(self._old)
        if self._old is None and (chosen := self._next()) is not None:
            self._begin(chosen)

    # -- beginning --------------------------------------------------------------------------------

    def _next(self) -> Child | None:
        """Whom to follow next: who can work no more first, then who has nothing in hand."""
        if now() < self.starts.allowed_at("worker"):
            return None
        workers = self.family.workers()
        due = [child for child in workers if child.spent or child.worn or child.outdated]
        if not due or any(not child.registered or child.stopping for child in workers):
            return None
        return min(due, key=lambda child: (not child.spent, child.work is not None))

    def _begin(self, old: Child) -> None:
        try:
            heir = self.family.spawn(old.role, old.slot, spare=not old.spare)
        except OSError as error:
            self._no_room(old, error)
        else:
            self._old, self._heir = old, heir
            heir.follows = old.incarnation

    def _no_room(self, old: Child, error: OSError) -> None:
        self.starts.no_room(old.role.name, now())
        why = f"cannot start another {old.role.name} ({error.strerror})"
        if old.spent or old.worn:
            self._leave_first(old, why)
        else:
            self._give_up_reload(why)

    def _leave_first(self, old: Child, why: str) -> None:
        # Who leaves makes the room.
        self.log.warning("no_room", f"{why}; {old.name} leaves first")
        self.family.send_off(old)

    # -- under way --------------------------------------------------------------------------------

    def _watch(self, old: Child) -> None:
        heir = self._heir
        assert heir is not None
        if not self._lives(heir):
            if not self._lives(old):
                self._done()
            elif not old.stopping:
                self._heir_died(old, heir)
        elif not self._lives(old):
            self._done()
        elif old.stopping:
            return
        elif heir.registered:
            self.log.info("replaced", _told(old), slot=old.slot, pid=old.pid, rss=old.rss or None)
            self.family.send_off(old)
        elif heir.hello_at is not None and now() - heir.hello_at > HEIR_SECONDS:
            self._leave_first(old, f"{heir.name} is ready and finds no connection")

    def _lives(self, child: Child) -> bool:
        return child.incarnation in self.family.by_incarnation

    def _heir_died(self, old: Child, heir: Child) -> None:
        self._old = self._heir = None
        if old.outdated and heir.hello_at is None:
            self._give_up_reload("a worker with the new code does not come up")

    def _give_up_reload(self, why: str) -> None:
        for child in self.family.workers():
            child.outdated = False
        self.log.error("reload_failed", f"reload failed: {why}; the old workers stay")

    def _done(self) -> None:
        old, self._old, self._heir = self._old, None, None
        left = any(child.outdated for child in self.family.workers())
        if old is not None and old.outdated and not left:
            self.log.info("reloaded", "reloaded: every worker runs the new code")


def _told(old: Child) -> str:
    if old.spent:
        why = "it has done as many tasks as it is to do"
    elif old.worn:
        why = f"it has grown to {old.rss / MIB:.0f} MiB"
    else:
        why = "it runs the old code"
    return f"{old.name} is replaced: {why}"
