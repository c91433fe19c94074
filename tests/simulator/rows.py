"""Rows, and what only the simulator knows of them."""

from runner.judge import Claim


class Holding:
    """One claim of one task: what is true of it, whatever anybody believes."""

    __slots__ = ("batch", "claim", "excused", "fence", "kind", "live")
    __slots__ += ("released", "returned", "solo", "started", "task_id", "worker")

    def __init__(self, row: "Row", worker: bytes, batch: "list[Holding]") -> None:
        self.task_id, self.fence, self.solo, self.kind = row.id, row.fence, row.solo, row.kind
        self.claim = Claim(row.id, row.fence, row.attempt, row.max_attempts, row.released, row.solo)
        self.worker = worker
        self.batch = batch
        self.started = self.returned = self.excused = False
        self.live: object | None = None  # the process its handler runs in


class Row:
    """A task, and below its columns what it has been through."""

    __slots__ = ("attempt", "fence", "id", "kind", "max_attempts", "owner", "released", "run_at")
    __slots__ += ("solo", "state")
    __slots__ += ("charges", "free_starts", "holding", "starts", "swept")

    def __init__(self, number: int, kind: str, max_attempts: int) -> None:
        self.id, self.kind, self.max_attempts = number, kind, max_attempts
        self.state = "ready"
        self.attempt = self.released = self.fence = 0
        self.solo = False
        self.owner: bytes | None = None
        self.run_at = 0.0
        self.holding: Holding | None = None
        self.charges = self.starts = self.free_starts = self.swept = 0


class Registered:
    """A row of runner.worker."""

    __slots__ = ("ends_at", "renewed_at", "until")

    def __init__(self) -> None:
        self.until = 0.0  # on the database's clock
        self.ends_at = self.renewed_at = 0.0  # in truth
