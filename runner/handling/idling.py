"""How a worker waits: for an order of its parent, for its turn to be woken, or for its own poll.

One byte in the wake pipe of a set of queues wakes one of its workers, whichever reads it first; who was
woken and found plenty wakes the next. So a hundred tasks wake as many workers as they need, and one task
wakes one.
"""

import contextlib
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ..clock import now
from ..config import ALIVE_SECONDS, FleetConfig
from ..wire import EventWriter, Kind
from .lifeline import Lifeline
from .readable import OneOfMany, wait_readable

IDLE_POLLS = 30  # an idle worker looks of its own this many times less often than the maintainer


@dataclass
class Idling:
    """`wake`: where a byte wakes one of us; `wake_next`: where to put one for another."""

    config: FleetConfig
    events: EventWriter
    lifeline: Lifeline
    rng: random.Random
    wake: int
    wake_next: int
    _was_woken: bool = False

    def __post_init__(self) -> None:
        self._wakes = OneOfMany(self.wake, self.lifeline.nudge)

    def idle(
        self,
        looked_at: float,
        *,
        full: bool,
        more: Sequence[int] = (),
        before: float = float("inf"),
    ) -> bool:
        """Say that a look has found nothing, then wait for something to do; whether we were woken.

        `looked_at`: when that look began; `full`: it has seen all there was; `more`: what whoever
        could not look waits for, in place of being woken: descriptors that turn readable; `before`: when
        to look again in any case.
        """
        self._was_woken = False  # it has looked
        self.events.send(Kind.IDLE, at=looked_at, flag=full)
        polled = self.config.poll_seconds * IDLE_POLLS * (0.75 + self.rng.random() / 2)
        until = min(before, now() + polled)
        while (left := until - now()) > 0:
            ready = self._doze(min(left, ALIVE_SECONDS), more)
            if self.wake in ready and self._take_wake_up():
                return True
            if self.lifeline.nudge in ready or set(more) & set(ready):
                break
            self.events.send(Kind.ALIVE)
        return False

    def _take_wake_up(self) -> bool:
        """One byte, one worker: another may have been faster."""
        try:
            os.read(self.wake, 1)
        except BlockingIOError:
            return False
        self._was_woken = True
        return True

    def found(self, *, plenty: bool) -> None:
        """There was work; who was woken for it, and found as much as it wanted, wakes the next: there
        may be more than the bytes say."""
        if plenty:
            self.hand_on()
        self._was_woken = False

    def hand_on(self) -> None:
        """Who was woken wakes the next: it found plenty, or does not come to look. The eldest is woken
        first each time, however it fares."""
        woken, self._was_woken = self._was_woken, False
        if woken:
            with contextlib.suppress(BlockingIOError):
                os.write(self.wake_next, b".")

    def pause(self, seconds: float) -> None:
        """Wait, though no longer than until an order comes."""
        self._see(wait_readable([self.lifeline.nudge], seconds))

    def _doze(self, seconds: float, more: Sequence[int]) -> list[int]:
        if not more:
            return self._see(self._wakes.wait(seconds))
        # Not for a byte: who may not look would take it from one who may.
        return self._see(wait_readable([self.lifeline.nudge, *more], seconds))

    def _see(self, ready: list[int]) -> list[int]:
        if self.lifeline.nudge in ready:
            self.lifeline.clear_nudges()
        if not self.lifeline.may_claim():
            self.events.send(Kind.ALIVE)
        return ready
