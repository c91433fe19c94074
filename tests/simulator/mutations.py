"""Each guard of the protocol, how to take it out, and the kind of history that misses it."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from runner.config import FleetConfig
from runner.handling import handoff
from runner.judge import NOTHING, Claim, Judge, Verdict
from runner.observing import Observer
from runner.renewing import Round
from runner.supervisor import child, leases, renewals
from runner.wire import Event, How, Kind, Token

from .world import Mix

Out = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Guard:
    """What is taken out: a predicate of the database (`broken`, with its name), or real code (`out`)."""

    name: str
    broken: frozenset[str] = frozenset()
    out: Out = nullcontext
    mix: Mix = field(default_factory=Mix)
    seed: int = 1  # to begin with


def _broken(*names: str, mix: Mix | None = None, seed: int = 1) -> Guard:
    return Guard(" and ".join(names), frozenset(names), mix=mix or Mix(), seed=seed)


# -- real code without one of its guards --------------------------------------------------------------

_hear = child.Child.hear


def _deaf_to(kind: Kind) -> Out:
    def hear(self: child.Child, event: Any, now: float) -> None:
        if event.kind is not kind:
            _hear(self, event, now)

    return lambda: patch.object(child.Child, "hear", hear)


def _forgets_former(self: child.Child, event: Any, now: float) -> None:
    _hear(self, event, now)
    self.former.clear()


def _counts_as_registered(self: child.Child, event: Any, now: float) -> None:
    _hear(self, event, now)
    self.registered = self.registered or event.kind is Kind.HELLO


_look = Observer.look


def _trusts_the_clock(self: Observer[Any], found: Iterable[Any], now: float) -> Any:
    return _look(self, [replace(one, length_seconds=0.0) for one in found], now)


_took, _begin = Round.took, Round.begin


def _counts_from_the_reply(self: Round, fresh: Any) -> None:
    _took(self, fresh)
    _begin(self, leases.now())


def _all_missing_are_lost(self: Round, existing: Any) -> list[bytes]:
    gone = list(self.waiting)
    self.waiting.clear()
    return gone


def _takes_whatever_runs(child: child.Child, event: Event) -> bool:
    return child.work is not None and not child.work.ending


def _settles_once(self: renewals.Renewals, settle: Any) -> None:
    self._send(renewals.pack_settle(settle))


def _next_from_memory(self: handoff.Handoff) -> Any:
    return self._rows.pop(next(iter(self._rows))) if self._rows else None


def _charges_whom_it_finds(
    self: Judge, claim: Claim, how: How, cause: str, begun: Token = NOTHING
) -> Verdict:
    return self.failed(claim, cause)


_settled = Judge.settled


def _never_solo(self: Judge, claim: Claim, how: How, cause: str, begun: Token = NOTHING) -> Verdict:
    return _settled(self, claim._replace(solo=False), how, cause, begun)


_interrupted = Judge.interrupted


def _never_too_often(self: Judge, claim: Claim, cause: str, *, solo: bool = False) -> Verdict:
    return _interrupted(self, claim._replace(max_attempts=10**6), cause, solo=solo)


# -- histories ----------------------------------------------------------------------------------------

STALLS = Mix(every_seconds=0.4, fates=0.5)
# Statements that arrive when nobody waits for them any more, and nobody could end their session.
LATE = Mix(
    terminate=False, longest_stall_seconds=20.0, fates=0.6, every_seconds=1.0, tasks=4,
    kinds={"short": 1.0, "writes": 1.0},
)  # fmt: skip
# One worker that is held up again and again, and a renewer that gives back twice.
HANDS = Mix(
    fleets=1, procs=1, tasks=4, kinds={"a second": 1.0}, fates=0.4, every_seconds=1.0,
    faults={"only": 0, "kill renewer": 1.0},
)  # fmt: skip
CLAIMS = {"short": 3.0, "short, no effect": 3.0, "long": 1.0}
LONG = Mix(fleets=1, kinds={"long": 2.0, "stubborn": 2.0}, every_seconds=0.4, tasks=4)
JUMPS = Mix(kinds={"long": 1.0, "stubborn": 1.0}, faults={"only": 0, "clock jump": 1.0}, fates=0.0,
            every_seconds=1.0, tasks=6)  # fmt: skip
FORGETS = Mix(forgets=True, faults={"clock jump": 0.0, "kill parent": 0.0, "stop parent": 0.0})
BATCHES = Mix(kinds={"kills its host": 1.0, "short": 2.0}, every_seconds=0.5, fates=0.1)
NO_TIMER = Mix(
    timer=False, kinds={"long": 1.0, "stubborn": 2.0}, every_seconds=0.5, tasks=6,
    faults={"kill parent": 0.0, "stop parent": 0.0, "term": 0.0},
)  # fmt: skip
# The parent alive, and never long without the database: what a dead worker held is back in seconds.
PROMPT = Mix(
    fleets=1, lease_seconds=30.0, resolved_seconds=15.0, fates=0.1, longest_stall_seconds=1.0,
    every_seconds=0.6, kinds={"long": 2.0, "short": 1.0},
    faults={"only": 0, "kill worker": 3.0, "kill renewer": 2.0, "cut session": 1.0},
)  # fmt: skip

GUARDS = [
    # The predicates of every statement that ends a claim.
    _broken("complete without owner", "complete without fence", mix=LATE),
    _broken("hand back without fence", mix=HANDS),
    _broken("end without owner", "end without fence", mix=replace(LATE, kinds={"fails": 1.0})),
    _broken(
        "done without owner",
        "done without fence",
        mix=replace(
            LATE,
            faults={"only": 0, "kill parent": 1.0},
            every_seconds=2.0,
            tasks=8,
            longest_stall_seconds=14.0,
            kinds={"quick": 1.0, "short, no effect": 1.0},
        ),
        seed=34,
    ),
    _broken("fence without the clock", mix=FORGETS),
    # Claims.
    _broken("attempt not counted"),
    _broken("dead is claimed"),
    _broken("claim without a lease", mix=replace(STALLS, terminate=False)),
    _broken("stop looked at too early", mix=Mix(faults={"term": 2.0})),
    # Leases.
    _broken(
        "sweep without a last look",
        mix=replace(
            STALLS,
            terminate=False,
            kinds={"long": 1.0},
            faults={"only": 0, "stop helper": 2.0, "stop parent": 0.5},
        ),
    ),
    _broken(
        "no end beyond the length",
        mix=replace(
            JUMPS, faults={"only": 0, "clock jump": 1.0, "kill parent": 1.0, "kill worker": 2.0}
        ),
    ),
    Guard(
        "half a lease of watching",
        out=lambda: patch.object(Observer, "look", _trusts_the_clock),
        mix=JUMPS,
    ),
    Guard(
        "the deadline before the send",
        out=lambda: patch.object(Round, "took", _counts_from_the_reply),
        mix=replace(
            LONG,
            fates=0.8,
            every_seconds=1.5,
            faults={"only": 0, "stop parent": 1.0, "kill renewer": 1.0},
        ),
    ),
    Guard(
        "the margin",
        out=lambda: patch.object(FleetConfig, "margin", property(lambda _: 0.0)),
        mix=replace(LONG, faults={"stop parent": 2.0}),
    ),
    _broken("no timer", mix=replace(LONG, faults={"stop parent": 2.0})),
    Guard("the parent's kill, where there is no timer", frozenset({"no kill"}), mix=NO_TIMER),
    _broken(
        "the stopped are renewed",
        mix=replace(NO_TIMER, faults=NO_TIMER.faults | {"stop worker": 6.0}),
    ),
    Guard("lost only when gone", out=lambda: patch.object(Round, "lost", _all_missing_are_lost)),
    Guard(
        "registered before it is renewed",
        out=lambda: patch.object(child.Child, "hear", _counts_as_registered),
    ),
    # What the parent may believe.
    Guard("ENDING precedes", out=_deaf_to(Kind.ENDING)),
    Guard(
        "only the claim that was asked for is taken",
        out=lambda: patch.object(leases, "_still_runs", _takes_whatever_runs),
    ),
    _broken("death before events"),
    # Who settles what.
    Guard(
        "a settle is kept until SETTLED",
        out=lambda: patch.object(renewals.Renewals, "settle", _settles_once),
        mix=PROMPT,
    ),
    Guard(
        "former identities are remembered",
        out=lambda: patch.object(child.Child, "hear", _forgets_former),
        mix=replace(PROMPT, faults=PROMPT.faults | {"cut session": 6.0}),
    ),
    _broken("former not settled", mix=replace(PROMPT, faults=PROMPT.faults | {"cut session": 6.0})),
    # Batches.
    Guard(
        "whoever reads the token has the task",
        out=lambda: patch.object(handoff.Handoff, "next", _next_from_memory),
    ),
    Guard(
        "one found by a sweep runs alone",
        out=lambda: patch.object(handoff, "together", lambda rows: (rows, ())),
        mix=BATCHES,
    ),
    Guard(
        "one found by a sweep is charged the next time",
        out=lambda: patch.object(Judge, "settled", _never_solo),
        mix=BATCHES,
    ),
    Guard(
        "only what had begun is charged",
        out=lambda: patch.object(Judge, "settled", _charges_whom_it_finds),
    ),
    Guard(
        "interrupted too often",
        out=lambda: patch.object(Judge, "interrupted", _never_too_often),
        mix=Mix(
            fleets=1,
            kinds={"long": 1.0},
            tasks=2,
            fates=0.0,
            every_seconds=0.5,
            faults={"only": 0, "cut session": 1.0},
        ),
    ),
]

__all__ = ["GUARDS", "Guard"]
