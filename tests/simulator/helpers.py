"""The renewer and the maintainer, in the order of `runner.roles`, with their decisions."""

from typing import Any

from runner.judge import Claim, Verdict
from runner.observing import Observer
from runner.renewing import Requests, Round
from runner.wire import HandBack, How, Kind, Outcome, Renewal, Settle, unpack_request

from .database import outcomes
from .process import Body, Cut, Idle, Process


class Renewer(Process):
    name = "renewer"

    def run(self) -> Body:
        self.asked = Requests()
        self.config = self.fleet.config
        while not self.told_to_stop:
            try:
                if self.session is None:
                    yield from self.connect()
                    self.say(Kind.HELLO)
                yield from self.attend()
            except Cut:
                self.session = None
            self.say(Kind.ALIVE)
            soon = self.session is None or self.asked
            yield Idle(self.world.rng.uniform(0.05, 0.5) if soon else 2.0)
        return 0

    def attend(self) -> Body:
        self.read()
        asked = self.asked
        if asked.newest is not None:
            yield from self.renew(*asked.newest)
            asked.newest = None
        while asked.hand_backs:
            yield from self.hand_back(asked.hand_backs[0])
            del asked.hand_backs[0]
        for settle in list(asked.settles.values()):
            yield from self.settle(settle)

    def read(self) -> None:
        while True:
            try:
                data = self.fleet.supervisor.renewals.renewer_end.recv(1 << 18)
            except BlockingIOError:
                return
            self.asked.take(unpack_request(data))

    def renew(self, asked_at: float, renewals: list[Renewal]) -> Body:
        current = Round(renewals, self.config.usable)
        bound = self.config.renewal_seconds
        while current.goes_on():
            ids = [one.worker for one in current.begin(self.world.time)]
            fresh = yield from self.ask(lambda ids=ids: self.db.renew(ids), bound)
            current.took(fresh)
            for worker in fresh:
                self.say(Kind.RENEWED, worker=worker, at=current.deadline)
            if current.waiting:
                left = list(current.waiting)
                there = yield from self.ask(lambda left=left: self.db.existing(left), bound)
                for worker in current.lost(there):
                    self.say(Kind.LOST, worker=worker)
        asked = [one for one in current.renewed if one.task]
        for one in (yield from self.ask(lambda: self.db.taken(asked), bound)):
            self.say(Kind.TAKEN, worker=one.worker, task=one.task, fence=one.fence)
        self.say(Kind.ANSWERED, at=asked_at)

    def hand_back(self, back: HandBack) -> Body:
        yield from self.ask(lambda: self.db.delete_done(back.worker, back.done))
        yield from self.ask(lambda: self.db.hand_back(back.worker, back.tokens, self.fleet.judge))
        self.say(Kind.HANDED, count=back.number)

    def settle(self, settle: Settle) -> Body:
        judge = self.fleet.judge

        def verdict(claim: Claim) -> Verdict:
            return judge.settled(claim, settle.how, settle.cause, settle.begun)

        yield from self.ask(lambda: self.fleet.server.terminate(settle.worker))
        ended = yield from self.ask(
            lambda: self.db.settle(settle.worker, verdict, "settle", done=settle.done)
        )
        del self.asked.settles[settle.worker]
        found = outcomes(ended or ())
        outcome = found.get(settle.task, Outcome.NONE)
        sent = found.get(settle.sent, Outcome.OK if settle.sent else Outcome.NONE)
        self.say(Kind.SETTLED, worker=settle.worker, task=settle.task, flag=outcome, count=sent)


class Maintainer(Process):
    name = "maintainer"

    def run(self) -> Body:
        self.observer: Observer[bytes] = Observer()
        self.say(Kind.HELLO)
        next_at = 0.0
        while not self.told_to_stop:
            try:
                if self.session is None:
                    yield from self.connect()
                next_at = yield from self.sweep()
                if (yield from self.ask(self.db.promote)):
                    self.say(Kind.PROMOTED, count=1)
            except Cut:
                self.session = None
            self.say(Kind.ALIVE)
            due = min(next_at - self.world.time, self.db.next_due(), 10.0)
            yield Idle(max(0.1, due))
        return 0

    def sweep(self) -> Body:
        leases = yield from self.ask(self.db.leases)
        ripe, next_at = self.observer.look(leases, self.world.time)
        judge = self.fleet.judge

        def swept(claim: Claim) -> Verdict:
            return judge.settled(claim, How.SWEPT, "lease expired")

        for lease in ripe:
            yield from self.ask(lambda it=lease: self.take(it, swept))
        yield from self.ask(lambda: self.db.orphans(judge))
        return next_at

    def take(self, lease: Any, swept: Any) -> None:
        self.fleet.server.terminate(lease.id)
        self.db.settle(lease.id, swept, "sweep", seen_until=lease.until)
