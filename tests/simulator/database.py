"""The rows, as the statements of `runner.store` treat them, and who may do what to a claim.

Each method is one statement, or one transaction that nobody sees in halves. Beside the columns there is
what only the simulator knows: which claim really stands behind a row (`Holding`), and how often a task
was charged. The predicates are those of the SQL; taken away one by one (`broken`), the check behind must
notice.
"""

import copy
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from runner.judge import INTERRUPTED_TOO_OFTEN, Claim, Judge, Verdict
from runner.observing import Lease
from runner.wire import Outcome, Renewal, Token

from .rows import Holding, Registered, Row
from .world import Violation, World

if TYPE_CHECKING:
    from .process import Process


class Database:
    """One server; `ahead` is how far its clock is from the hosts'."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ahead = 1e6
        self.jumped_at = float("-inf")
        self.owners: dict[bytes, Process] = {}  # who took which identity
        self._left_at: dict[int, float] = {}  # rows of the dead, and when they were first seen
        self.tasks: dict[int, Row] = {}
        self.workers: dict[bytes, Registered] = {}
        self.effects: dict[int, int] = {}
        self.removed: set[int] = set()
        self.added: set[int] = set()
        self.top_fence: dict[int, int] = {}
        self.live: dict[int, Holding] = {}
        self.ended: dict[tuple[int, int], str] = {}  # claims, and who ended them
        self._number = 0
        self._written = (self.time, self._copy())

    @property
    def time(self) -> float:
        return self.world.time

    def clock(self) -> float:
        return self.world.time + self.ahead

    # -- people -----------------------------------------------------------------------------------

    def enqueue(self, kind: str, max_attempts: int) -> None:
        self._number += 1
        self.tasks[self._number] = Row(self._number, kind, max_attempts)
        self.added.add(self._number)

    def cancel(self, task: int) -> None:
        row = self.tasks.pop(task)
        self.removed.add(task)
        if row.holding is not None:
            self.ended[task, row.fence] = "a person"

    def requeue(self, row: Row) -> None:
        row.state, row.attempt, row.released, row.solo = "ready", 0, 0, False
        row.charges = row.starts = row.free_starts = row.swept = 0

    # -- workers ----------------------------------------------------------------------------------

    def register(self, worker: bytes, process: "Process") -> None:
        self.owners[worker] = process
        lease = self.workers[worker] = Registered()
        self._extend(lease)

    def _extend(self, lease: Registered) -> None:
        lease.until = self.clock() + self.world.mix.lease_seconds
        lease.renewed_at = self.time
        lease.ends_at = self.time + self.world.mix.lease_seconds

    def renew(self, workers: Collection[bytes]) -> list[bytes]:
        """Those that are there; now and then one is locked, and left out."""
        rng = self.world.rng
        found = [one for one in workers if one in self.workers and rng.random() > 0.02]
        for one in found:
            self._extend(self.workers[one])
        return found

    def existing(self, workers: Collection[bytes]) -> set[bytes]:
        return {one for one in workers if one in self.workers}

    def taken(self, asked: Collection[Renewal]) -> list[Renewal]:
        rows = ((one, self.tasks.get(one.task)) for one in asked)
        return [
            one
            for one, row in rows
            if row is None
            or (row.owner, row.fence, row.state) != (one.worker, one.fence, "running")
        ]

    # -- claims -----------------------------------------------------------------------------------

    def claim(self, worker: bytes, wanted: int, done: Collection[Token]) -> list[Holding]:
        self.delete_done(worker, done)
        broken = self.world.broken
        lease = self.workers.get(worker)
        if (lease is None or lease.until <= self.clock()) and "claim without a lease" not in broken:
            return []
        if lease is None:
            raise Violation("a claim without a worker's row behind it")
        states = ("ready", "dead") if "dead is claimed" in broken else ("ready",)
        ready = [row for row in self.tasks.values() if row.state in states]
        if not ready:
            return []
        first = self.world.rng.choice(ready)
        same = [row for row in ready if row.kind == first.kind][:wanted]
        batch: list[Holding] = []
        for row in same:
            if row.state == "dead":
                raise Violation("a dead task was claimed")
            batch.append(self._claim(row, worker, batch))
        return batch

    def _claim(self, row: Row, worker: bytes, batch: list[Holding]) -> Holding:
        broken = self.world.broken
        row.state, row.owner = "running", worker
        row.attempt += "attempt not counted" not in broken
        clock = int(self.clock() * 1_000_000)
        row.fence = max(row.fence + 1, 0 if "fence without the clock" in broken else clock)
        if row.fence <= self.top_fence.get(row.id, 0):
            raise Violation(f"task {row.id} has the fence {row.fence} again")
        self.top_fence[row.id] = row.fence
        row.holding = Holding(row, worker, batch)
        self._look(row)
        return row.holding

    def _ours(self, task: int, worker: bytes, fence: int, what: str) -> Row | None:
        """The row whose claim this is, by the predicate of every statement that ends one."""
        broken = self.world.broken
        row = self.tasks.get(task)
        if row is None or row.state != "running":
            return None
        if row.owner != worker and f"{what} without owner" not in broken:
            return None
        if row.fence != fence and f"{what} without fence" not in broken:
            return None
        return row

    def complete(self, holding: Holding, worker: bytes) -> bool:
        """The effect and the deletion, in one transaction; False: not ours, everything undone."""
        row = self._ours(holding.task_id, worker, holding.fence, "complete")
        if row is None:
            return False
        if row.holding is not holding:
            raise Violation(f"task {row.id} was completed by who does not hold it")
        self._delete(row, "its worker")
        return True

    def _delete(self, row: Row, by: str) -> None:
        assert row.holding is not None
        del self.tasks[row.id]
        self.ended[row.id, row.fence] = by
        self.effects[row.id] = self.effects.get(row.id, 0) + 1
        if self.effects[row.id] > 1:
            raise Violation(f"task {row.id} has two effects")

    def delete_done(self, worker: bytes, done: Collection[Token]) -> None:
        for token in done:
            row = self._ours(token.task_id, worker, token.fence, "done")
            if row is None:
                continue
            holding = row.holding
            assert holding is not None
            if holding.fence != token.fence or not holding.returned:
                raise Violation(f"task {row.id} was deleted, and is not through")
            self._delete(row, "its worker")

    def hand_back(self, worker: bytes, tokens: Collection[Token], judge: Judge) -> None:
        for token in tokens:
            row = self._ours(token.task_id, worker, token.fence, "hand back")
            if row is None:
                continue
            assert row.holding is not None
            if row.holding.fence != token.fence or row.holding.started:
                raise Violation(f"task {row.id} was given back, and had begun")
            self._apply(row, judge.released(row.holding.claim, started=False), "hand back")

    def end_claim(self, holding: Holding, worker: bytes, verdict: Verdict) -> bool:
        row = self._ours(holding.task_id, worker, holding.fence, "end")
        if row is None:
            return False
        if row.holding is not holding:
            raise Violation(f"task {row.id} was ended by who does not hold it")
        self._apply(row, verdict, "its worker")
        return True

    def settle(
        self,
        worker: bytes,
        judge: Callable[[Claim], Verdict],
        by: str,
        *,
        seen_until: float | None = None,
        done: Collection[Token] = (),
    ) -> list[tuple[int, Verdict]] | None:
        lease = self.workers.get(worker)
        if lease is None:
            return None
        if (
            seen_until not in (None, lease.until)
            and "sweep without a last look" not in self.world.broken
        ):
            return None
        del self.workers[worker]
        self.delete_done(worker, done)
        rows = self._rows_of(worker)
        if by == "sweep" and self._excused(lease):
            for row in rows:
                assert row.holding is not None
                row.holding.excused = True
        return [self._end_for(row, judge, by) for row in rows]

    def _excused(self, lease: Registered) -> bool:
        """What is not promised: the database's clock jumps, and then no renewal gets through for half a
        lease."""
        length = self.world.mix.lease_seconds
        jumped = self.jumped_at > self.time - length
        return jumped and self.time - lease.renewed_at >= length / 2

    def orphans(self, judge: Judge) -> int:
        """Running rows without a worker's row: there are none, but where a failover has lost some."""
        found = [row for row in self.tasks.values() if row.state == "running"]
        found = [row for row in found if row.owner not in self.workers]
        for row in found:
            if not self.world.mix.forgets:
                raise Violation(f"task {row.id} runs without a worker's row")
            assert row.holding is not None
            row.holding.excused = True
            self._end_for(row, lambda claim: judge.released(claim, started=False), "orphan")
        return len(found)

    def _rows_of(self, worker: bytes) -> list[Row]:
        return [r for r in self.tasks.values() if r.state == "running" and r.owner == worker]

    def _end_for(self, row: Row, judge: Callable[[Claim], Verdict], by: str) -> tuple[int, Verdict]:
        holding = row.holding
        assert holding is not None
        if holding.live is not None and not (holding.excused or self.world.mix.forgets):
            raise Violation(f"task {row.id} was taken ({by}) while its handler runs")
        verdict = judge(holding.claim)
        self._apply(row, verdict, by)
        return row.id, verdict

    def _apply(self, row: Row, verdict: Verdict, by: str) -> None:
        holding = row.holding
        assert holding is not None
        if self.world.mix.forgets and (holding.excused or by == "orphan"):
            row.charges = verdict.attempt
        elif verdict.attempt == holding.claim.attempt:
            row.charges += 1
            self._charged(row, holding, verdict)
        elif not self.world.mix.forgets and by in ("settle", "former"):
            self._released(row, holding, verdict)
        if by == "sweep" and holding.started:
            row.swept += 1
        if verdict.cause in ("stopped", "snoozed") and holding.started:
            row.free_starts += 1
        self.ended[row.id, row.fence] = by
        row.holding = row.owner = None
        row.state, row.attempt, row.released = verdict.state, verdict.attempt, verdict.released
        row.solo = verdict.solo
        row.run_at = self.clock() + verdict.delay_seconds
        self._look(row)

    @staticmethod
    def _released(row: Row, holding: Holding, verdict: Verdict) -> None:
        unbegun = verdict.outcome is Outcome.RELEASED and verdict.cause is None
        if unbegun and holding.started and not holding.returned:
            raise Violation(f"task {row.id} had begun, and was given back as if it had not")

    def _charged(self, row: Row, holding: Holding, verdict: Verdict) -> None:
        bounded = (verdict.cause or "").startswith(INTERRUPTED_TOO_OFTEN)
        others = any(one.started for one in holding.batch)
        if not holding.started and others and not bounded and not self.world.mix.forgets:
            raise Violation(f"task {row.id} was charged for what another of its batch did")

    def _look(self, row: Row) -> None:
        """What holds of a row at any time."""
        if row.attempt > row.max_attempts:
            raise Violation(f"task {row.id} is at attempt {row.attempt} of {row.max_attempts}")
        if row.attempt != row.charges + (row.state == "running"):
            raise Violation(f"task {row.id}: attempt {row.attempt}, charged {row.charges} times")
        if self.world.mix.forgets:
            return
        if row.swept > row.max_attempts + 1:
            raise Violation(f"task {row.id} was swept out of its handler {row.swept} times")
        if row.starts - row.free_starts > 4 * row.max_attempts + 2:
            raise Violation(f"task {row.id} began {row.starts} times")

    # -- handlers ---------------------------------------------------------------------------------

    def begin(self, holding: Holding, process: object) -> None:
        """The handler of a claim begins in a process."""
        other = self.live.get(holding.task_id)
        if other is not None and not other.excused and not holding.excused:
            raise Violation(f"task {holding.task_id} has two live handlers")
        holding.started = True
        holding.live = process
        self.live[holding.task_id] = holding
        row = self.tasks.get(holding.task_id)
        if row is not None and row.holding is holding:
            row.starts += 1

    def over(self, holding: Holding) -> None:
        """Its handler is over, by its end or by that of its process."""
        holding.live = None
        if self.live.get(holding.task_id) is holding:
            del self.live[holding.task_id]
        lease = self.workers.get(holding.worker)
        if self.world.mix.forgets or lease is None:
            return
        if self.time > lease.ends_at + 1e-6:
            late = self.time - lease.ends_at
            raise Violation(
                f"the handler of task {holding.task_id} ran on {late:.2f} s past its lease"
            )

    # -- passes -----------------------------------------------------------------------------------

    def leases(self) -> list[Lease[bytes]]:
        clock, length = self.clock(), self.world.mix.lease_seconds
        beyond = length if "no end beyond the length" not in self.world.broken else float("inf")
        return [
            Lease(
                one,
                lease.until,
                lease.until < clock or lease.until > clock + beyond,
                lease.until - clock,
                length,
            )
            for one, lease in self.workers.items()
        ]

    def promote(self) -> int:
        clock = self.clock()
        due = [r for r in self.tasks.values() if r.state == "scheduled" and r.run_at <= clock]
        for row in due:
            row.state = "ready"
        return len(due)

    def next_due(self) -> float:
        """Seconds until the next scheduled task is due."""
        due = [row.run_at for row in self.tasks.values() if row.state == "scheduled"]
        return min(due, default=float("inf")) - self.clock()

    def look_for_the_left(self, bound: float) -> None:
        """What a dead worker held is not held for longer than this."""
        left = {}
        for row in self.tasks.values():
            if row.owner is not None and self.owners[row.owner].holds_no_more(row.owner):
                left[row.fence] = self._left_at.get(row.fence, self.time)
                if self.time - left[row.fence] > bound:
                    raise Violation(f"task {row.id} is held by a dead worker, for {bound:g} s now")
        self._left_at = left

    # -- losing what was written ------------------------------------------------------------------

    def _copy(self) -> tuple[dict[int, Row], dict[bytes, Registered], dict[int, int], set[int]]:
        return (
            {number: copy.copy(row) for number, row in self.tasks.items()},
            {worker: copy.copy(lease) for worker, lease in self.workers.items()},
            dict(self.effects),
            set(self.removed),
        )

    def replicate(self) -> None:
        """What a standby has by now."""
        self._written = (self.time, self._copy())

    def fail_over(self) -> None:
        """The standby takes over: what it had not got is as if it had not been."""
        before = {row.holding for row in self.tasks.values() if row.holding is not None}
        _, (tasks, workers, effects, removed) = self._written
        self.tasks, self.workers, self.effects, self.removed = tasks, workers, effects, removed
        self._written = (self.time, self._copy())
        self.added = set(tasks) | set(effects) | removed
        kept = {row.holding for row in tasks.values() if row.holding is not None}
        for holding in before - kept:
            holding.excused = True
        for holding in self.live.values():
            holding.excused = holding.excused or holding not in kept


def outcomes(ended: Sequence[tuple[int, Verdict]]) -> dict[int, Outcome]:
    """How each task came out."""
    return {task: verdict.outcome for task, verdict in ended}
