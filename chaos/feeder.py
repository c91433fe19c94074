"""Enqueues all the while, and keeps a ledger of what the server has acknowledged (W4)."""

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import psycopg
from psycopg.types.json import Jsonb

MIX = {"quick": 46, "outside": 20, "grouped": 10, "slow": 14, "program": 5, "late": 5}


@dataclass(frozen=True)
class Food:
    """What is enqueued: types by weight, and how long the `late` ones take, in seconds."""

    weights: Mapping[str, int]
    late_seconds: tuple[float, float]
    backlog: int = 48  # that wait or run; no more, so that the end comes soon after the last fault
    batch: int = 6
    late: int = (
        4  # of these at most: a worker that is killed every two seconds finishes few of them
    )


WAITING = """select count(*), count(*) filter (where task_type = 'late')
             from runner.task where state <> 'dead'"""
# A server that is gone without a word is noticed: a COMMIT would wait for its answer for ever.
PATIENCE = {
    "connect_timeout": 3,
    "keepalives_idle": 1,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 3000,
}
INSERT = "insert into runner.task (task_type, params) values (%s, %s) returning task_id"


class Feeder:
    """A thread with a connection of its own: by the socket, which no fault of a network meets, or on
    the host that the thread enters first."""

    def __init__(
        self,
        url: str,
        ledger: Path,
        food: Food,
        seed: int,
        enter: Callable[[], None] = lambda: None,
    ) -> None:
        self._enter = enter
        self.acknowledged: list[int] = []
        self.outside: list[int] = []
        self._url = url
        self._ledger = ledger
        self._food = food
        self._rng = random.Random(seed)
        self._late = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """No more tasks from now on."""
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        self._enter()
        with self._ledger.open("a") as ledger:
            while not self._stop.is_set():
                try:
                    with psycopg.connect(self._url, autocommit=True, **PATIENCE) as conn:
                        while not self._stop.is_set():
                            self._add(conn, ledger)
                except psycopg.Error:
                    time.sleep(0.05)

    def _add(self, conn: psycopg.Connection[tuple[Any, ...]], ledger: TextIO) -> None:
        row = conn.execute(WAITING).fetchone()
        assert row is not None
        waiting, self._late = row
        if waiting > self._food.backlog - self._food.batch:
            self._stop.wait(0.02)
            return
        with conn.transaction():
            batch = [self._insert(conn) for _ in range(self._food.batch)]
        # Only now: a COMMIT whose answer is lost is not an acknowledgement.
        self.acknowledged += [task for task, _ in batch]
        self.outside += [task for task, kind in batch if kind == "outside"]
        ledger.writelines(f"{task} {kind}\n" for task, kind in batch)
        ledger.flush()

    def _insert(self, conn: psycopg.Connection[tuple[Any, ...]]) -> tuple[int, str]:
        kind, seconds = self._draw()
        row = conn.execute(INSERT, [kind, Jsonb({"seconds": seconds})]).fetchone()
        assert row is not None
        return row[0], kind

    def _draw(self) -> tuple[str, float]:
        weights = self._food.weights
        kind = self._rng.choices(list(weights), list(weights.values()))[0]
        if kind == "late":
            self._late += 1
            kind = kind if self._late <= self._food.late else "quick"
        low, high = self._food.late_seconds if kind == "late" else (0.01, 0.6)
        return kind, self._rng.uniform(low, high)
