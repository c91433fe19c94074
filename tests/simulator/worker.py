"""A worker, in the order of `runner.roles.worker` and `runner.handling`, with their decisions."""

import os
from typing import Any

from runner.handling import handoff as handing
from runner.handling.lease import OwnLease
from runner.judge import Claim, Verdict
from runner.wire import Kind, Order, Outcome, Token

from .ahead import Left, Lost, SentAhead
from .database import Holding, outcomes
from .process import PARK, Body, Cut, Idle, Interrupted
from .world import Violation


class Worker(SentAhead):
    name = "worker"

    def __init__(self, *values: Any, tokens: tuple[int, int], **more: Any) -> None:
        super().__init__(*values, **more)
        self.config = self.fleet.config
        self.judge = self.fleet.judge
        self.own = OwnLease(self.config.usable)
        self._fds = tokens
        self.handoff = handing.Handoff(*tokens)
        self.worker = b""
        self.done: list[Token] = []
        self.first_done_at = 0.0
        self.next: Any = None  # taken when the completion before it was sent

    def bury(self) -> None:
        for fd in self._fds:
            os.close(fd)

    def holds_no_more(self, worker: bytes) -> bool:
        return self.dead or worker != self.worker

    # -- orders and lease -------------------------------------------------------------------------

    def obey(self, order: Order, at: float) -> None:
        if order is Order.EXTEND:
            waited_for = not self.own.may_claim(self.world.time)
            self.own.extend(at)
            if self.own.holding:
                self.set_timer(self.own.ends_us_at)
            if waited_for:
                self.nudge()
        else:
            super().obey(order, at)
            self.nudge()

    def hold(self, holding: bool) -> None:
        self.own.holding = holding
        self.set_timer(self.own.ends_us_at)

    # -- the story --------------------------------------------------------------------------------

    def run(self) -> Body:
        yield self.world.rng.uniform(0.01, 0.1)
        former: tuple[bytes, tuple[Left, ...], list[Token]] | None = None
        while not self.told_to_stop:
            try:
                if not (yield from self.join(former)):
                    break
                former = None
                yield from self.serve()
            except (Lost, Cut) as lost:
                left = lost.left if isinstance(lost, Lost) else ()
                if former is None and self.joined:
                    former = (self.worker, left, self.done)
                self.session = self.next = self.sent = None
        return 0

    def join(self, former: tuple[bytes, tuple[Left, ...], list[Token]] | None) -> Body:
        self.own.forget()
        self.set_timer(None)
        self.joined = False
        fresh = self.world.new_id()
        self.say(Kind.HELLO, worker=fresh)
        while True:
            try:
                yield from self.connect()
                break
            except Cut:
                yield Idle(self.world.rng.uniform(0.05, 1.0))
                self.say(Kind.ALIVE)
                if self.told_to_stop:
                    return False
        if former is not None and "former not settled" not in self.world.broken:
            yield from self.settle(*former)
        yield from self.ask(lambda: self.db.register(fresh, self))
        assert self.session is not None
        self.worker, self.session.worker = fresh, fresh
        self.fleet.server.sessions[fresh] = self.session
        self.own.join(self.world.time)
        self.say(Kind.REGISTERED, worker=fresh)
        self.done, self.joined = [], True
        return True

    def settle(self, worker: bytes, left: tuple[Left, ...], done: list[Token]) -> Body:
        self.handoff.take_all()
        judgements = {holding.claim.token: judgement for holding, judgement, _ in left}

        def judge(claim: Claim) -> Verdict:
            known = judgements.get(claim.token)
            return known(claim) if known else self.judge.released(claim, started=False)

        yield from self.ask(lambda: self.fleet.server.terminate(worker))
        ended = yield from self.ask(lambda: self.db.settle(worker, judge, "former", done=done))
        found = outcomes(ended or ())
        for holding, _, committing in left:
            gone = Outcome.OK if committing and ended is not None else Outcome.LOST
            outcome = found.get(holding.task_id, gone)
            self.say(Kind.FINISHED, task=holding.task_id, fence=holding.fence, flag=outcome)

    def serve(self) -> Body:
        while not self.told_to_stop:
            if not self.own.may_claim(self.world.time):
                yield Idle(10.0)
                self.say(Kind.ALIVE)
                continue
            batch = yield from self.look()
            if not batch:
                yield from self.idle()
                continue
            self.say(Kind.CLAIMED, task=batch[0].task_id, fence=batch[0].fence, count=len(batch))
            yield from self.work_through(batch)
            self.hold(False)
        yield from self.clear()

    def look(self) -> Body:
        self.hold(True)
        self.looked_at = self.world.time
        wanted = self.world.rng.randint(1, 5)
        worker, done = self.worker, list(self.done)
        batch = yield from self.ask(
            lambda: self.db.claim(worker, wanted, done), self.config.claim_seconds
        )
        self.cleared()
        if not batch:
            self.hold(False)
        return batch

    def idle(self) -> Body:
        self.say(Kind.IDLE, at=self.looked_at, flag=1)
        yield Idle(self.world.rng.uniform(0.2, 1.0))
        self.say(Kind.ALIVE)

    # -- a batch ----------------------------------------------------------------------------------

    def work_through(self, batch: list[Holding]) -> Body:
        rows, others = handing.together(batch)  # type: ignore[arg-type]
        if others:
            yield from self.give_back([Token(row.task_id, row.fence) for row in others])
        self.handoff.put(rows[1:])
        row: Any = rows[0]
        ignores = "stop looked at too early" in self.world.broken
        while row is not None and (ignores or not self.told_to_stop):
            self.next = None
            yield from self.attempt(row)
            row = self.next or self.handoff.next()
        yield from self.answer()
        if row is not None:
            rest = [Token(row.task_id, row.fence), *self.handoff.take_all()]
            yield from self.give_back(rest)

    def give_back(self, tokens: list[Token]) -> Body:
        worker = self.worker
        yield from self.ask(lambda: self.db.hand_back(worker, tokens, self.judge))

    def attempt(self, holding: Holding) -> Body:
        if self.told_to_stop:
            raise Violation("a handler was started after its worker had been told to stop")
        kind = self.fleet.kinds[holding.kind]
        limit_at = self.world.time + kind.limit_seconds if kind.limit_seconds else 0.0
        self.say(Kind.STARTED, task=holding.task_id, fence=holding.fence, at=limit_at)
        self.db.begin(holding, self)
        self.holding = holding
        verdict: Verdict | None = None
        try:
            yield from self.handle(kind)
            holding.returned = self.is_good(kind)
        except Interrupted:
            verdict = self.interrupted(holding, limit_at)
        self.armed = False
        self.holding = None
        self.db.over(holding)
        if verdict is None and not holding.returned:
            verdict = self.judgement(holding, kind.ends)
        if self.sent is not None:  # whoever waits for it is over
            self.say(Kind.ENDING, task=holding.task_id, fence=holding.fence)
            judge = self.judge
            yield from self.answer(
                (
                    holding,
                    lambda claim: verdict or judge.interrupted(claim, "connection lost"),
                    False,
                )
            )
        if verdict is None and not kind.touches:
            self.note_done(holding)
            return
        yield from self.end(holding, verdict)

    def is_good(self, kind: Any) -> bool:
        """What snoozes has an end when all is calm."""
        return kind.ends == "ok" or (kind.ends == "snoozes" and self.world.calm)

    def handle(self, kind: Any) -> Body:
        if kind.ends == "kills its worker":
            self.die(-9)
            yield PARK
        if kind.ends == "kills its host":
            self.fleet.kill_parent()
        if not kind.seconds:
            return
        seconds = self.world.rng.uniform(*kind.seconds)
        until = self.world.time + seconds
        self.armed = True
        try:
            yield seconds
        except Interrupted:
            if not kind.stubborn:
                raise
            yield max(0.0, until - self.world.time)

    def interrupted(self, holding: Holding, limit_at: float) -> Verdict:
        if limit_at and self.world.time >= limit_at:
            return self.judge.failed(holding.claim, "time limit")
        if self.told_to_stop:
            return self.judge.released(holding.claim, started=True)
        return self.judge.interrupted(holding.claim, "interrupted")

    def judgement(self, holding: Holding, ends: str) -> Verdict:
        if ends == "snoozes":
            return self.judge.snoozed(holding.claim, self.world.rng.uniform(0.1, 1.0))
        return self.judge.failed(holding.claim, "ValueError")

    def end(self, holding: Holding, verdict: Verdict | None) -> Body:
        """ENDING, then the statement that ends the claim, then FINISHED."""
        if "no ENDING" not in self.world.broken:
            self.say(Kind.ENDING, task=holding.task_id, fence=holding.fence)
        worker = self.worker
        outcome = Outcome.OK if verdict is None else verdict.outcome
        if verdict is None and not (self.told_to_stop or self.done):
            self.next = self.handoff.next()
            if self.next is not None:
                self.send_ahead(holding)
                return
        try:
            if verdict is None:
                ours = yield from self.ask(lambda: self.db.complete(holding, worker))
            else:
                given = verdict
                ours = yield from self.ask(lambda: self.db.end_claim(holding, worker, given))
        except Cut:
            if verdict is None:
                judge = self.judge
                raise Lost(
                    (holding, lambda claim: judge.interrupted(claim, "connection lost"), True)
                ) from None
            kept = verdict
            raise Lost((holding, lambda _: kept, False)) from None
        flag = outcome if ours else Outcome.LOST
        self.say(Kind.FINISHED, task=holding.task_id, fence=holding.fence, flag=flag)

    # -- deletions that travel together -----------------------------------------------------------

    def note_done(self, holding: Holding) -> None:
        self.done.append(Token(holding.task_id, holding.fence))
        self.say(Kind.DONE, task=holding.task_id, fence=holding.fence)

    def clear(self) -> Body:
        if self.done:
            worker, done = self.worker, list(self.done)
            yield from self.ask(lambda: self.db.delete_done(worker, done))
            self.cleared()

    def cleared(self) -> None:
        if self.done:
            self.say(Kind.CLEARED, count=len(self.done))
            self.done.clear()
