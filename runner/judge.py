"""What becomes of a claim that did not end in completion. Pure: every way a task can go on is here.

The order of judgement over an ended handler is in `handling/attempt.py`: committed = done, however late;
else the lease is lost = nothing is written; else a stop = refunded; else it failed.
"""

import random
from dataclasses import dataclass
from typing import NamedTuple

from .backoff import Backoff
from .wire import How, Outcome, Token

INTERRUPTED_TOO_OFTEN = "interrupted too often"
NOTHING = Token(0, 0)
NOWHERE = "(0,0)"  # a ctid that no row has


def interruptions_allowed(max_attempts: int) -> int:
    """How often a task may be interrupted without charge: once more, and it is dead."""
    return 3 * max_attempts


class Claim(NamedTuple):
    """The numbers of a claimed row that its future depends on, and where the claim has left it."""

    task_id: int
    fence: int
    attempt: int  # this one included
    max_attempts: int
    released: int
    solo: bool
    ctid: str = NOWHERE

    @property
    def token(self) -> Token:
        """Its name among all claims: of several in one statement the fences may be the same."""
        return Token(self.task_id, self.fence)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is written to the row, and how that counts."""

    outcome: Outcome
    state: str
    attempt: int
    released: int
    solo: bool
    delay_seconds: float = 0.0
    cause: str | None = None
    error: str | None = None  # None: keep what a handler said before
    failed: bool = False
    post_mortem: str | None = None  # None: keep what there was before


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges claims under one backoff; `rng` gives the jitter."""

    backoff: Backoff
    rng: random.Random

    def failed(
        self,
        claim: Claim,
        cause: str,
        error: str | None = None,
        *,
        delay: float | None = None,
        backoff: Backoff | None = None,
        final: bool = False,
    ) -> Verdict:
        """The handler failed or took its process with it: the attempt is kept."""
        dead = final or claim.attempt >= claim.max_attempts
        wait = (
            delay if delay is not None else (backoff or self.backoff).delay(claim.attempt, self.rng)
        )
        return Verdict(
            Outcome.DEAD if dead else Outcome.RETRIED,
            "dead" if dead else "scheduled",
            claim.attempt,
            claim.released,
            claim.solo,
            0.0 if dead else wait,
            cause,
            error,
            failed=True,
        )

    def snoozed(self, claim: Claim, delay: float) -> Verdict:
        """The handler asked to be called later: the attempt is refunded."""
        return Verdict(
            Outcome.SNOOZED,
            "scheduled",
            claim.attempt - 1,
            claim.released,
            claim.solo,
            delay,
            "snoozed",
        )

    def released(self, claim: Claim, *, started: bool) -> Verdict:
        """A graceful stop, or a claim that nobody began: refunded, ready at once, never bounded."""
        return Verdict(
            Outcome.RELEASED,
            "ready",
            claim.attempt - 1,
            claim.released + started,
            claim.solo,
            cause="stopped" if started else None,
        )

    def ungrouped(self, claim: Claim) -> Verdict:
        """Its group was rolled back: ready at once, to be run by itself (a released task never shares a
        transaction), without charge."""
        return Verdict(
            Outcome.RELEASED,
            "ready",
            claim.attempt - 1,
            claim.released + 1,
            claim.solo,
            cause="its group was rolled back",
        )

    def interrupted(self, claim: Claim, cause: str, *, solo: bool = False) -> Verdict:
        """Lease or connection lost, through no fault of the task: refunded, after a backoff.

        A task that is interrupted again and again may well be the reason: at more than three times its
        attempts it is dead.
        """
        released = claim.released + 1
        if released > interruptions_allowed(claim.max_attempts):
            return Verdict(
                Outcome.DEAD,
                "dead",
                claim.attempt,
                released,
                claim.solo,
                cause=f"{INTERRUPTED_TOO_OFTEN}, last: {cause}",
                failed=True,
            )
        return Verdict(
            Outcome.RELEASED,
            "scheduled",
            claim.attempt - 1,
            released,
            claim.solo or solo,
            self.backoff.delay(released, self.rng),
            cause,
        )

    def settled(self, claim: Claim, how: How, cause: str, begun: Token = NOTHING) -> Verdict:
        """A claim whose worker is gone; `begun` is the one that it had begun."""
        if how is How.SWEPT:
            # Nobody is left who knows whether it had begun. The first time it is given the benefit of
            # the doubt; from then on it runs alone, so that the next time it is known.
            if claim.solo:
                return self.failed(claim, cause)
            return self.interrupted(claim, cause, solo=True)
        if claim.token != begun:
            return self.released(claim, started=False)
        if how is How.DIED:
            return self.failed(claim, cause)
        if how is How.STOPPED:
            return self.released(claim, started=True)
        return self.interrupted(claim, cause)
