"""What a worker knows of its own lease. Pure: the clock is an argument."""

from dataclasses import dataclass


@dataclass(slots=True)
class OwnLease:
    """Until when the worker may work, and whether it holds anything that its death must not outlast.

    `usable_seconds`: how long an extension is good for. `deadline`: the lease's end on this clock, with
    the margin taken off.
    """

    usable_seconds: float
    deadline: float = 0.0
    extended: bool = False  # under this identity
    holding: bool = False
    least: float = 0.0  # no extension of this identity ends before that

    def forget(self) -> None:
        """A new identity: nothing of the old one's lease counts."""
        self.extended = self.holding = False
        self.least = float("inf")

    def join(self, now: float) -> None:
        """The new identity is registered, and about to be announced."""
        self.least = now + self.usable_seconds

    def extend(self, deadline: float) -> None:
        """The parent has had it renewed.

        An order that comes late may still be about the identity before. Renewals of this one are sent
        after it was announced, so each of them is good for at least `usable_seconds` from then.
        """
        if deadline >= self.least:
            self.deadline = deadline
            self.extended = True

    def may_claim(self, now: float) -> bool:
        """Whether a claim made now has at least half of a lease in front of it."""
        return self.extended and self.deadline - now >= self.usable_seconds / 2

    @property
    def ends_us_at(self) -> float | None:
        """The local time at which the kernel is to kill this process; None while it holds nothing."""
        return self.deadline if self.holding else None
