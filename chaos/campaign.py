"""One campaign: faults by a schedule, work all the while, and the judgement at the end."""

import heapq
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

import psycopg

from chaos.faults import FAULTS, Fault, Waits
from chaos.feeder import MIX, Feeder, Food
from chaos.schedule import Strike
from chaos.stage import BACKOFF_CAP_SECONDS, LEASE_SECONDS, Missed, Stage
from chaos.witnesses import Census, Judgement, judge

# What is promised after the last fault, and how long we wait to see what was not kept.
SETTLED_SECONDS = 3 * LEASE_SECONDS + BACKOFF_CAP_SECONDS
PATIENCE_SECONDS = 4 * SETTLED_SECONDS
LOOK_SECONDS = 0.25
# Mostly short tasks; some hold a transaction open, few outlast their lease.
FOOD = Food(MIX, (0.3 * LEASE_SECONDS, 1.2 * LEASE_SECONDS))
# For the control arm: few, so that somebody is free to take a task, and so long that it meets the other.
LONG_FOOD = Food({"late": 1}, (2 * LEASE_SECONDS, 3 * LEASE_SECONDS), backlog=3, batch=1)


@dataclass
class Result:
    """What happened, by kind, and what came of it."""

    struck: Counter[str]
    missed: Counter[str]
    seconds: float
    settled_seconds: float | None  # from the last fault's end until nothing was left; None: never
    restarts: int  # parents that ended though nobody asked them to
    judgement: Judgement


@dataclass
class Campaign:
    """Drives the faults of a schedule in one thread; each goes on when its time has come."""

    stage: Stage
    faults: Mapping[str, Fault] = field(default_factory=lambda: FAULTS)
    food: Food = FOOD
    struck: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    last_at: float = 0.0
    quiet_since: float = 0.0
    _due: list[tuple[float, int, str, Waits]] = field(default_factory=list)
    _number: Iterator[int] = field(default_factory=count)
    _looked_at: float = 0.0

    def __post_init__(self) -> None:
        self.census = Census(self.stage.log)

    def run(self, strikes: Iterable[Strike], seconds: float, seed: int) -> Result:
        """Strike, wait until all is done, and judge."""
        stage = self.stage
        feeder = Feeder(stage.url, stage.directory / "ledger", self.food, seed)
        feeder.start()
        begun = time.monotonic()
        for strike in strikes:
            course = self.faults[strike.fault].strike(stage, random.Random(strike.seed))
            self._push(begun + strike.at, strike.fault, course)
        while self._due or time.monotonic() < begun + seconds:
            self._step(begun + seconds)
        feeder.stop()
        settled = self._settle()
        restarts = sum(runner.ended_by_itself for runner in stage.runners)
        for runner in stage.runners:
            runner.stop()
        took = time.monotonic() - begun
        return Result(self.struck, self.missed, took, settled, restarts, self._judge(feeder))

    def _push(self, at: float, fault: str, course: Waits) -> None:
        heapq.heappush(self._due, (at, next(self._number), fault, course))

    def _step(self, until: float) -> None:
        now = time.monotonic()
        if now >= self._looked_at + LOOK_SECONDS:
            self._look(now)
        due_at = self._due[0][0] if self._due else until
        if due_at > now:
            time.sleep(min(due_at - now, LOOK_SECONDS))
            return
        _, _, fault, course = heapq.heappop(self._due)
        try:
            wait = next(course)
        except Missed:
            self.missed[fault] += 1
            return
        except StopIteration:
            self.struck[fault] += 1
            self.last_at = time.monotonic()
            return
        self._push(now + wait, fault, course)

    def _look(self, now: float) -> None:
        self._looked_at = now
        self.stage.log.follow()
        if any(runner.disturbed for runner in self.stage.runners):
            self.quiet_since = now
        self.census.look(now, self.quiet_since)
        for runner in self.stage.runners:
            runner.see_to_it()
        server = self.stage.server
        if not server.disturbed and not server.alive:
            server.start()

    def _settle(self) -> float | None:
        """Until nothing waits or runs."""
        while (now := time.monotonic()) < self.last_at + PATIENCE_SECONDS:
            self._look(now)
            try:
                with self.stage.connect() as conn:
                    query = "select from runner.task where state <> 'dead' limit 1"
                    if not conn.execute(query).rowcount:
                        return time.monotonic() - self.last_at
            except (Missed, psycopg.Error):
                pass
            time.sleep(0.05)
        return None

    def _judge(self, feeder: Feeder) -> Judgement:
        log, census = self.stage.log, self.census
        log.follow()
        time.sleep(1.0)
        strays = [*census.strays, *census.left_at_the_end()]
        with self.stage.connect() as conn:
            return judge(conn, feeder.acknowledged, feeder.outside, log, strays, census.seen)
