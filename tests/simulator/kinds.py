"""How handlers behave."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """How handlers of one kind behave."""

    seconds: tuple[float, float] | None = None
    ends: str = "ok"
    touches: bool = True
    stubborn: bool = False
    limit_seconds: float = 0.0


KINDS = {
    "quick": Work(touches=False),
    "writes": Work(),
    "short": Work((0.05, 0.6)),
    "short, no effect": Work((0.005, 0.05), touches=False),
    "a second": Work((1.0, 1.3)),
    "long": Work((1.0, 9.0)),
    "stubborn": Work((2.0, 9.0), stubborn=True),
    "fails": Work((0.0, 0.2), ends="fails"),
    "snoozes": Work((0.0, 0.2), ends="snoozes"),
    "hangs": Work((1000.0, 1000.0), limit_seconds=0.8),
    "hangs for good": Work((1000.0, 1000.0), stubborn=True, limit_seconds=0.8),
    "kills its worker": Work(ends="kills its worker"),
    "kills its host": Work(ends="kills its host"),
}
