"""Where somebody who looks for work is within each kind of it. Pure.

Rows of a kind lie by `shuffle`, which grows with the time at which they became ready. Consumed rows stay
in the index until VACUUM may remove them, and under an old snapshot it may not: whoever starts from the
beginning each time wades through all of them. So everybody goes on from where they were, wraps to a
low-water mark, and lets the mark rise when nothing is left below.

A row can still appear below a mark, if its transaction inserted it before the mark rose and commits
afterwards. Which transactions those are, a snapshot tells: all that were in progress then. Until they
have ended a lap below that mark is needed from time to time; when there were none, it never is.

A lap that proved dear need not go all the way each time: a transaction whose number is above one that we
drew began to write after that. What it locked, and left as it was, lies anywhere; a lap to the end finds
that now and then. All this is by kind: the mark of one that was drained rises at the end of that, when
whatever is in progress has begun to write since most of it was taken.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from math import inf, nextafter
from typing import NamedTuple

STRATUM_SECONDS = 2.0
COST_FACTOR = 20  # dear looks: never sooner than this many times their cost, times the workers
LAP_SECONDS = 60.0  # a lap below the marks is made so often in any case
MOST_MET = 2000  # kinds to remember; beyond that we begin anew
MOST_DRAWN = 512  # numbers to remember, one a stratum
NOBODY_KNOWS = 2**63


class Kind(NamedTuple):
    """What claims choose between."""

    queue: str
    task_type: str
    priority: int


class Snapshot(NamedTuple):
    """What a statement could see: every transaction below `xmin` has ended, and whoever was in
    progress has a number below `own`, which the statement drew after it had looked.

    (The xmax of a snapshot would not do: it is the last that has ended, plus one, and transactions
    beyond it may be in progress.) With both the same, nobody was.
    """

    xmin: int
    own: int


NO_SNAPSHOT = Snapshot(0, NOBODY_KNOWS)


@dataclass(slots=True)
class Place:
    """Where one worker is within a kind: just below the last shuffle it took, and the low-water mark."""

    at: float = -inf
    mark: float = -inf


class Late(NamedTuple):
    """What may lie below a mark: rows of transactions below the number `until`, none of them below
    `least`."""

    until: int
    least: float


@dataclass
class Places:
    """Places in all kinds that were met.

    `of`: those that are worth a probe now; `unclean`: what may lie below the marks of some, until all
    who could have left it have ended and a lap has been made since; `risen`: that is more than the last
    lap has seen.
    """

    of: dict[Kind, Place] = field(default_factory=dict)
    met: dict[Kind, Place] = field(default_factory=dict)
    snapshot: Snapshot = NO_SNAPSHOT  # of the last statement
    unclean: dict[Kind, Late] = field(default_factory=dict)
    risen: bool = False
    passed_over: frozenset[Kind] = frozenset()  # by the last look that was empty: those are paused
    _began: float = -inf  # the stratum before the last statement
    _drawn: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=MOST_DRAWN))

    def begin(self, stratum: float) -> None:
        """A statement is about to be sent, in this stratum."""
        self._began = stratum

    def saw(self, snapshot: Snapshot) -> None:
        """What that statement could see."""
        self.snapshot = snapshot
        known = self._drawn[-1][1] if self._drawn else -inf
        if snapshot.own != NOBODY_KNOWS and self._began > known:
            self._drawn.append((snapshot.own, self._began))

    def looked_at(self, numbers: Collection[int]) -> None:
        """An empty look was at these of the kinds in `of`, which count from one."""
        passed_over = len(numbers) < len(self.of)
        kinds = enumerate(self.of, 1) if passed_over else ()
        self.passed_over = frozenset(kind for number, kind in kinds if number not in numbers)

    def know(self, kinds: Collection[Kind]) -> None:
        """Exactly these kinds are worth a probe now; places in those met before stay."""
        if len(self.met) > MOST_MET:
            self.met = {}
        self.of = {kind: self.of.get(kind) or self.met.get(kind) or Place() for kind in kinds}
        self.met |= self.of
        self.unclean = {kind: late for kind, late in self.unclean.items() if kind in self.met}

    def know_all(self) -> None:
        """Every kind that was met is worth a probe now: on a lap, which is for what no list shows."""
        self.of = dict(self.met)

    def listed(self, kinds: Collection[Kind], stratum: float) -> None:
        """A list found rows of these kinds, and none above the marks of any other."""
        found = set(kinds)
        for kind in found:
            self.met.setdefault(kind, Place())
        self._raise([kind for kind in self.met if kind not in found], stratum)

    def took(self, kind: Kind, first: float, last: float, stratum: float) -> None:
        """Go on behind rows of one kind, with these shuffles; after a wrap, nothing is left below."""
        place = self.of.get(kind) or self.met.setdefault(kind, Place())
        if first <= place.at:
            self._lift(kind, place, min(_below(first), stratum - 2))
        place.at = _below(last)

    def found_nothing(self, stratum: float) -> None:
        """A look over every kind was empty; where it has not looked there may be anything."""
        self._raise([kind for kind in self.of if kind not in self.passed_over], stratum)

    def made_lap(self) -> None:
        """A look below the marks has found nothing more."""
        self.risen = False
        for kind, late in list(self.unclean.items()):
            if self.snapshot.xmin >= late.until:
                del self.unclean[kind]
                if kind in self.passed_over:
                    self.met[kind].mark = -inf

    def lap_from(self, kind: Kind, to_the_end: bool) -> float:
        """What a lap looks above: at the mark, where there is nothing to find below it."""
        if to_the_end:
            return -inf
        mark = self.met[kind].mark
        return min(mark, self.unclean[kind].least) if kind in self.unclean else mark

    def _raise(self, kinds: Collection[Kind], stratum: float) -> None:
        for kind in kinds:
            place = self.met[kind]
            # To two strata ago, never above: the clock of whoever inserts may be a little behind.
            self._lift(kind, place, stratum - 2)
            place.at = max(place.at, place.mark)

    def _lift(self, kind: Kind, place: Place, mark: float) -> None:
        if mark <= place.mark:
            return
        place.mark = mark
        if self.snapshot.xmin < self.snapshot.own:
            self.risen = True
            until, least = self.unclean.get(kind, (0, inf))
            since = self._written_since(self.snapshot.xmin)
            self.unclean[kind] = Late(max(until, self.snapshot.own), min(least, since))

    def _written_since(self, number: int) -> float:
        """The stratum in which the transaction of this number, or of any above, may have begun to
        write; one more is for clocks that differ."""
        return next((at - 1 for own, at in reversed(self._drawn) if own <= number), -inf)


def _below(shuffle: float) -> float:
    """So little below it that what shares it still lies above: of two rows a claim may take one."""
    return nextafter(shuffle, -inf)
