"""What a child is told about itself: which place it takes, and which descriptors it has."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Ends:
    """The descriptors that a child takes with it through the fork; everything else it closes."""

    events: int  # write
    control: int  # read
    life: int  # read; never carries data
    log: int  # write
    extra: dict[str, int] = field(default_factory=dict)

    def all(self) -> set[int]:
        """Every descriptor to keep."""
        return {self.events, self.control, self.life, self.log, *self.extra.values()}


@dataclass(frozen=True)
class Seat:
    """Which place in the fleet a child takes."""

    role: str
    slot: int
    incarnation: int
    spare: bool = False  # an heir, in the slot of whom it follows

    @property
    def hand(self) -> int:
        """Where it keeps its permits."""
        return hand_of(self.slot, self.spare)


def hand_of(slot: int, spare: bool) -> int:
    """The number of a worker among all that there may be at once: two a slot."""
    return 2 * slot + spare
