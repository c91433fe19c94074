"""What a renewer has been asked and has not done yet. Pure: the clock is an argument."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from .wire import HandBack, Renewal, Settle

LOCKED_RETRIES = 5


@dataclass
class Requests:
    """Of the requests to renew only the newest counts; the others are done one by one, and stay here
    until they are."""

    newest: tuple[float, list[Renewal]] | None = None
    settles: dict[bytes, Settle] = field(default_factory=dict)
    hand_backs: list[HandBack] = field(default_factory=list)

    def take(self, request: tuple[float, list[Renewal]] | Settle | HandBack) -> None:
        """Remember what the parent asks."""
        match request:
            case Settle():
                self.settles[request.worker] = request
            case HandBack():
                self.hand_backs.append(request)
            case _:
                self.newest = request

    def __bool__(self) -> bool:
        return bool(self.newest or self.settles or self.hand_backs)


class Round:
    """One request to renew, from its first statement to the answer."""

    def __init__(self, renewals: Iterable[Renewal], usable_seconds: float) -> None:
        self.waiting = {one.worker: one for one in renewals}
        self.renewed: list[Renewal] = []
        self.deadline = 0.0  # of what the last statement renewed
        self._usable_seconds = usable_seconds
        self._left = LOCKED_RETRIES

    def goes_on(self) -> bool:
        """Whether there is somebody to ask for; a row that stays locked is left to the next request."""
        self._left -= 1
        return bool(self.waiting) and self._left >= 0

    def begin(self, now: float) -> list[Renewal]:
        """What to ask with the statement that is sent next.

        The deadline counts from before it is sent: whatever the network does, the database's own comes
        later.
        """
        self.deadline = now + self._usable_seconds
        return list(self.waiting.values())

    def took(self, fresh: Collection[bytes]) -> None:
        """The statement has extended these."""
        for worker in fresh:
            self.renewed.append(self.waiting.pop(worker))

    def lost(self, existing: Collection[bytes]) -> list[bytes]:
        """Who is gone: a row that is only locked is still there, and asked for again."""
        gone = [worker for worker in self.waiting if worker not in existing]
        for worker in gone:
            del self.waiting[worker]
        return gone
