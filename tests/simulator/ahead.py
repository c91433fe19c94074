"""A completion that is not waited for: it is executed while the next handler runs, or not at all."""

from collections.abc import Callable

from runner.judge import Claim, Judge, Verdict
from runner.wire import Kind, Outcome

from .database import Holding
from .process import Body, Process, Session

Left = tuple[Holding, Callable[[Claim], Verdict], bool]


class Lost(Exception):
    """The identity is over; what it held, and how that is to be judged."""

    def __init__(self, *left: Left) -> None:
        self.left = left


class SentAhead(Process):
    """What a worker does about it."""

    judge: Judge
    worker: bytes
    sent: tuple[Holding, list[bool], Session] | None = None  # and not answered

    def send_ahead(self, holding: Holding) -> None:
        """It is executed while the next handler runs, or not at all."""
        session, rng, answers = self.session, self.world.rng, []
        worker = self.worker
        if session is None or session.over:
            raise Lost((holding, self.judged_lost, True))
        self.sent = holding, answers, session
        fate = rng.random() / self.world.mix.fates if self.world.mix.fates else 1.0
        late = rng.uniform(0.05, 2.0) if fate < 0.3 else rng.uniform(0.0002, 0.003)
        if fate < 1.0 and not self.world.calm:
            self.world.fault("sent ahead")
        else:
            fate = 1.0

        def execute() -> None:
            if session.over or not self.fleet.server.up or fate < 0.1:
                session.end()
                return
            answers.append(self.db.complete(holding, worker))
            if fate < 0.2:
                session.end()

        self.world.after(late, execute)

    def judged_lost(self, claim: Claim) -> Verdict:
        return self.judge.interrupted(claim, "connection lost")

    def answer(self, *behind: Left) -> Body:
        """Hear what has become of it; Lost with what is `behind` it."""
        if self.sent is None:
            return
        (holding, answers, session), self.sent = self.sent, None
        until = self.world.time + 3.0
        while not (answers or session.over) and self.world.time < until:
            yield 0.002
        if session.over or not answers:
            raise Lost(*behind, (holding, self.judged_lost, True))
        flag = Outcome.OK if answers[0] else Outcome.LOST
        self.say(Kind.FINISHED, task=holding.task_id, fence=holding.fence, flag=flag)
