"""L1: every transition of a task's life, on the real statements, beside a model of what must come of it.

The database's clock is moved by moving every stored time the other way. Backoffs are an hour, so that
what waits becomes due by a jump or by a person, and never by the test's being slow.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from psycopg.rows import namedtuple_row

from runner.backoff import Backoff
from runner.errors import LeaseLost
from runner.judge import NOTHING, Claim, Judge, Verdict
from runner.observing import Observer
from runner.places import Kind, Places
from runner.store import ending, operate, passes, workers
from runner.store.claim import Claiming, Row
from runner.store.sending import Completion
from runner.wire import How, Renewal, Token
from tests.db.stage import announce, consistent
from tests.servers import Connection, empty

LEASE_SECONDS = 30.0
TYPES, QUEUES, PRIORITIES = ("a", "b"), ("default", "other"), (1, 5)
KINDS = [Kind(q, t, p) for q in QUEUES for t in TYPES for p in PRIORITIES]
JUMPS = (-7200.0, -20.0, 20.0, 40.0, 7200.0)
JUDGE = Judge(Backoff(3600.0, 3600.0, 0.0), random.Random(1))
PICK = st.integers(0, 99)
T = TypeVar("T")
SHIFTED = {
    "task": ("run_at", "created_at", "last_failed_at", "claimed_at"),
    "worker": ("started_at", "lease_until"),
    "receipt": ("completed_at",),
    "pause": ("until", "at"),
}


@dataclass
class Task:
    """A task as it must be."""

    type: str
    queue: str
    state: str
    key: str | None = None
    twin: tuple[str, str, int] | None = None  # what makes unique ones the same
    attempt: int = 0
    released: int = 0
    fence: int = 0
    solo: bool = False
    owner: UUID | None = None

    def waits(self, twin: tuple[str, str, int]) -> bool:
        return self.twin == twin and (self.fence == 0 or self.state in ("ready", "scheduled"))


class Machine(RuleBasedStateMachine):
    """Some workers, some tasks, and people who meddle. `db` is set by who runs it."""

    db: Connection

    @initialize()
    def begin(self) -> None:
        empty(self.db)
        self.db.execute("create table effect (task_id bigint)")
        self.tasks: dict[int, Task] = {}
        self.effects: set[int] = set()
        self.receipts: set[str] = set()
        self.removed: set[int] = set()
        self.paused: set[str] = set()
        self.alive: list[UUID] = []  # workers that go on, whatever the database says of them
        self.claims: list[Row] = []  # all that anybody ever got
        self.observer: Observer[UUID] = Observer()
        self.local = 0.0
        self.added = 0

    # -- adding -----------------------------------------------------------------------------------

    @rule(
        type_=st.sampled_from(TYPES),
        queue=st.sampled_from(QUEUES),
        priority=st.sampled_from(PRIORITIES),
        number=st.integers(1, 3),
        key=st.none() | st.sampled_from(["k1", "k2"]),
        unique=st.booleans(),
        later=st.booleans(),
        most=st.none() | st.integers(1, 3),
    )
    def enqueue(
        self,
        type_: str,
        queue: str,
        priority: int,
        number: int,
        key: str | None,
        unique: bool,
        later: bool,
        most: int | None,
    ) -> None:
        twin = (queue, type_, number)
        known = key in self.receipts or any(key and key == t.key for t in self.tasks.values())
        waiting = unique and any(task.waits(twin) for task in self.tasks.values())
        (found,) = self.db.execute(
            "select runner.enqueue(task_type => %s, params => jsonb_build_object('n', %s::int),"
            " queue => %s, priority => %s, idempotency_key => %s, unique_params => %s,"
            " max_attempts => %s, run_at => clock_timestamp() + make_interval(secs => %s))",
            [type_, number, queue, priority, key, unique, most, 3600 if later else -1],
        ).fetchone() or (None,)
        assert (found is None) == (known or waiting), (found, known, waiting)
        if found is not None:
            state = "scheduled" if later else "ready"
            self.tasks[found] = Task(type_, queue, state, key, twin if unique else None)
            self.added += 1

    # -- workers ----------------------------------------------------------------------------------

    @rule()
    def register(self) -> None:
        if len(self.alive) == 3:
            return
        self.alive.append(announce(self.db, *TYPES, lease=LEASE_SECONDS))

    def registered(self) -> dict[UUID, bool]:
        """Whose row is there, and whether its lease holds."""
        query = "select worker_id, lease_until > clock_timestamp() from runner.worker"
        return dict(self.db.execute(query).fetchall())

    @rule()
    def renew(self) -> None:
        if not self.alive:
            return
        there = self.registered()
        found = workers.renew(self.db, [Renewal(worker.bytes) for worker in self.alive])
        assert found == set(self.alive) & set(there)
        assert workers.existing(self.db, self.alive) == found
        asked = [Renewal(w.bytes, i, t.fence) for w in found for i, t in self.tasks.items()]
        owners = {i: t.owner and t.owner.bytes for i, t in self.tasks.items()}
        taken = [one for one in asked if owners[one.task] != one.worker]
        assert workers.taken(self.db, asked) == taken

    @rule(pick=PICK, wanted=st.integers(1, 4), heard=st.booleans())
    def claim(self, pick: int, wanted: int, heard: bool) -> None:
        """One whose reply was lost is nobody's to end: only a settle can find it."""
        if not self.alive:
            return
        worker = one_of(self.alive, pick)
        holds = self.registered().get(worker, False)
        places = Places()
        places.know(KINDS)
        claiming = Claiming(self.db, worker, dict.fromkeys(TYPES, 3))
        values = claiming.compose(places, wanted=lambda _: wanted, full=True)
        rows = claiming.claim(values, places)
        ready = [t for t in self.tasks.values() if t.state == "ready" and t.type not in self.paused]
        assert bool(rows) == (holds and bool(ready)), (rows, holds, ready)
        assert len(rows) <= wanted
        assert len({row.kind for row in rows}) <= 1
        for row in rows:
            task = self.tasks[row.task_id]
            assert task.state == "ready"
            assert task.type not in self.paused
            assert (row.attempt, row.released, row.solo) == (
                task.attempt + 1,
                task.released,
                task.solo,
            )
            assert row.fence > task.fence
            task.state, task.owner, task.fence = "running", worker, row.fence
            task.attempt += 1
        if heard:
            self.claims += [replace_owner(row, worker) for row in rows]

    # -- the end of a claim -----------------------------------------------------------------------

    def any_claim(self, pick: int) -> tuple[Row, UUID, bool]:
        """Some claim, its worker, and whether it still stands."""
        row = one_of(self.claims[-5:], pick)
        worker = row.params["worker"]
        task = self.tasks.get(row.task_id)
        stands = task is not None and (task.owner, task.fence) == (worker, row.fence)
        return row, worker, stands

    @rule(pick=PICK)
    def complete_as_a_group(self, pick: int) -> None:
        if not self.claims:
            return
        row, worker, stands = self.any_claim(pick)
        if row.idempotency_key is not None:
            return
        try:
            with self.db.transaction():
                self.db.execute("insert into effect values (%s)", [row.task_id])
                ending.complete_group(self.db, worker, [Token(row.task_id, row.fence)])
        except LeaseLost:
            assert not stands
        else:
            assert stands
            self.done(row)

    @rule(pick=PICK)
    def complete(self, pick: int) -> None:
        if not self.claims:
            return
        row, worker, stands = self.any_claim(pick)
        key = row.idempotency_key
        repeated = key in self.receipts
        try:
            with self.db.transaction():
                self.db.execute("insert into effect values (%s)", [row.task_id])
                ending.complete(self.db, worker, row.task_id, row.fence)
                if key is not None and not ending.leave_receipt(
                    self.db, key, row.task_id, row.task_type
                ):
                    raise Repeated
        except LeaseLost:
            assert not stands
            return
        except Repeated:
            assert repeated
            return
        assert stands
        assert not repeated
        self.done(row)

    def done(self, row: Row, effect: bool = True) -> None:
        del self.tasks[row.task_id]
        if effect:
            self.effects.add(row.task_id)
            if row.idempotency_key is not None:
                self.receipts.add(row.idempotency_key)

    @rule(pick=PICK)
    def complete_in_one_string(self, pick: int) -> None:
        if not self.claims:
            return
        row, worker, stands = self.any_claim(pick)
        if row.idempotency_key is not None:
            return
        text = Completion(row.task_id, str(worker), row.fence, "m", row.ctid).text
        begun = f"begin; set local runner.claim = 'm'; insert into effect values ({row.task_id}); "
        result = self.db.pgconn.exec_(begun.encode() + text)
        if stands:
            assert not result.error_message
            self.done(row)
        else:
            assert b"RN001" in (result.error_field(67) or b"")
            self.db.pgconn.exec_(b"rollback")

    @rule(pick=PICK, how=st.sampled_from(["fail", "retry", "discard", "snooze", "release"]))
    def end(self, pick: int, how: str) -> None:
        if not self.claims:
            return
        row, worker, stands = self.any_claim(pick)
        verdict = verdict_of(how, row.claim)
        try:
            ending.end_claim(self.db, worker, row.task_id, row.fence, verdict)
        except LeaseLost:
            assert not stands
        else:
            assert stands
            self.judged(row.task_id, verdict)

    def judged(self, number: int, verdict: Verdict) -> None:
        task = self.tasks[number]
        task.state, task.owner, task.attempt = verdict.state, None, verdict.attempt
        task.released, task.solo = verdict.released, verdict.solo

    @rule(pick=PICK)
    def delete_done(self, pick: int) -> None:
        if not self.claims:
            return
        row, worker, stands = self.any_claim(pick)
        if row.idempotency_key is not None:
            return
        count = ending.delete_done(self.db, worker, [Token(row.task_id, row.fence)])
        assert count == stands
        if stands:
            self.done(row, effect=False)

    @rule(pick=PICK)
    def hand_back(self, pick: int) -> None:
        if not self.claims:
            return
        row, worker, stands = self.any_claim(pick)
        count = ending.hand_back(self.db, worker, [Token(row.task_id, row.fence)])
        assert count == stands
        if stands:
            self.judged(row.task_id, JUDGE.released(row.claim, started=False))

    # -- deaths -----------------------------------------------------------------------------------

    @rule(pick=PICK, how=st.sampled_from([How.DIED, How.STOPPED, How.LEASE_LOST]))
    def crash(self, pick: int, how: How) -> None:
        """A worker is gone, in one of its claims or in none, and its parent has it settled."""
        if not self.alive:
            return
        worker = one_of(self.alive, pick)
        self.alive.remove(worker)
        begun = one_of([NOTHING, *self.tokens_of(worker)], pick // 10)
        there = worker in self.registered()
        ended = ending.settle(
            self.db, worker, lambda claim: JUDGE.settled(claim, how, "gone", begun)
        )
        assert (ended is not None) == there
        self.settled(worker, ended or [])

    def tokens_of(self, worker: UUID) -> list[Token]:
        return [Token(i, t.fence) for i, t in self.tasks.items() if t.owner == worker]

    def settled(self, worker: UUID, ended: list[ending.Ended]) -> None:
        held = {token.task_id for token in self.tokens_of(worker)}
        assert {one.task_id for one in ended} == held
        for one in ended:
            self.judged(one.task_id, one.verdict)

    @rule()
    def sweep(self) -> None:
        """Only leases that the database calls ended, and that have not moved for half a lease."""
        there = self.registered()
        found = passes.leases(self.db)
        before = dict(self.observer._seen)
        ripe, _ = self.observer.look(found, self.local)
        for lease in ripe:
            until, since = before[lease.id]
            assert until == lease.until
            assert self.local - since >= LEASE_SECONDS / 2
            assert not there[lease.id] or lease.ends_in_seconds > LEASE_SECONDS
        held = {t.task_id for lease in ripe for t in self.tokens_of(lease.id)}
        ended = passes.sweep(self.db, ripe, JUDGE)
        assert {one.task_id for one in ended} == held
        for one in ended:
            assert one.verdict.solo
            self.judged(one.task_id, one.verdict)

    # -- time -------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1.0, 16.0]))
    def time_passes(self, seconds: float) -> None:
        """On the sweeper's own clock."""
        self.local += seconds

    @rule(seconds=st.sampled_from(JUMPS))
    def clock_jumps(self, seconds: float) -> None:
        for table, columns in SHIFTED.items():
            moved = ", ".join(
                f"{one} = {one} - make_interval(secs => {seconds})" for one in columns
            )
            self.db.execute(f"update runner.{table} set {moved}")  # type: ignore[arg-type]
        self.move_fences(int(seconds * 1_000_000))

    def move_fences(self, micros: int) -> None:
        """A fence is a time, too."""
        self.db.execute("update runner.task set fence = fence - %s where fence > 0", [micros])
        for task in self.tasks.values():
            task.fence -= micros if task.fence else 0
        self.claims = [replace(row, fence=row.fence - micros) for row in self.claims]

    @rule()
    def promote(self) -> None:
        due = {
            number
            for (number,) in self.db.execute(
                "select task_id from runner.task where state = 'scheduled'"
                " and run_at <= clock_timestamp()"
            ).fetchall()
        }
        assert passes.promote(self.db) == len(due)
        for number in due:
            assert self.tasks[number].state == "scheduled"
            self.tasks[number].state = "ready"

    # -- people -----------------------------------------------------------------------------------

    @rule(pick=PICK)
    def requeue(self, pick: int) -> None:
        if not self.tasks:
            return
        number = one_of(sorted(self.tasks), pick)
        task = self.tasks[number]
        found = operate.requeue(self.db, [number], ("dead", "scheduled"))
        assert bool(found) == (task.state in ("dead", "scheduled"))
        if found:
            task.state, task.attempt, task.released, task.solo = "ready", 0, 0, False

    @rule(pick=PICK, how=st.sampled_from(["cancelled", "discarded"]))
    def remove(self, pick: int, how: str) -> None:
        if not self.tasks:
            return
        number = one_of(sorted(self.tasks), pick)
        assert operate.remover(how, "me")(self.db, [number], operate.EVERY_STATE) == [number]
        del self.tasks[number]
        self.removed.add(number)

    @rule(type_=st.sampled_from(TYPES))
    def pause(self, type_: str) -> None:
        operate.pause(self.db, None, type_, who="me")
        self.paused.add(type_)

    @rule(type_=st.sampled_from(TYPES))
    def resume(self, type_: str) -> None:
        assert bool(operate.resume(self.db, None, type_)) == (type_ in self.paused)
        self.paused.discard(type_)

    # -- what holds at any time -------------------------------------------------------------------

    @invariant()
    def rows_are_as_they_must_be(self) -> None:
        if not hasattr(self, "tasks"):
            return
        with self.db.cursor(row_factory=namedtuple_row) as cursor:
            rows = cursor.execute(
                "select task_id, state, attempt, released, fence, solo, lease_owner as owner"
                " from runner.task"
            ).fetchall()
        assert {row.task_id for row in rows} == set(self.tasks)
        for row in rows:
            task = self.tasks[row.task_id]
            assert all(
                getattr(row, name) == getattr(task, name)
                for name in ("state", "attempt", "released", "fence", "solo", "owner")
            ), (row, task)
        assert consistent(self.db)

    @invariant()
    def effects_are_those_of_completions(self) -> None:
        if not hasattr(self, "tasks"):
            return
        query = """select (select array_agg(task_id) from effect),
                          (select array_agg(idempotency_key) from runner.receipt),
                          (select array_agg(task_id) from runner.removed)"""
        found = self.db.execute(query).fetchone()
        assert found is not None
        effects, receipts, removed = (sorted(one or []) for one in found)
        assert effects == sorted(self.effects)
        assert receipts == sorted(self.receipts)
        assert removed == sorted(self.removed)

    @invariant()
    def nothing_runs_without_a_worker(self) -> None:
        if hasattr(self, "tasks"):
            there = self.registered()
            assert all(t.owner in there for t in self.tasks.values() if t.state == "running")


def one_of(some: Sequence[T], pick: int) -> T:
    """Nothing that is drawn depends on what the database did before: it draws by chance itself."""
    return some[pick % len(some)]


class Repeated(Exception):
    """The key was completed before."""


def replace_owner(row: Row, worker: UUID) -> Row:
    """A claim that remembers whose it was."""
    return replace(row, params={"worker": worker})


def verdict_of(how: str, claim: Claim) -> Verdict:
    """What a worker makes of a handler that ended so."""
    ways: dict[str, Any] = {
        "fail": lambda: JUDGE.failed(claim, "ValueError", "no"),
        "retry": lambda: JUDGE.failed(claim, "Retry", "later", delay=3600.0),
        "discard": lambda: JUDGE.failed(claim, "Discard", "no use", final=True),
        "snooze": lambda: JUDGE.snoozed(claim, 3600.0),
        "release": lambda: JUDGE.released(claim, started=True),
    }
    verdict: Verdict = ways[how]()
    return verdict
