"""What the witnesses saw, and the judgement: lost, doubled, overlaps, strays.

W1 and W2 are in the log that the handlers wrote, W3 is the table `effect`, W4 the ledger of tasks whose
enqueue was acknowledged, W5 the census of programs that handlers left behind.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from chaos import processes

STRAY_SECONDS = (
    2.0  # a program is to be gone so long after its attempt, and after its parent stood still
)

Attempt = tuple[int, int]  # task, fence


def prepare(url: str) -> None:
    """The table of effects, in a database that has the schema. It has no unique key: what is doubled is
    to be seen."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("create table effect (task_id bigint, attempt int)")


@dataclass
class Log:
    """Follows the handlers' log as it grows."""

    path: Path
    starts: int = 0
    overlaps: list[int] = field(default_factory=list)
    workers: dict[int, str | None] = field(default_factory=dict)  # pid, and when it was born
    busy: set[int] = field(default_factory=set)  # of those, whose handler has begun and not ended
    ended: set[Attempt] = field(default_factory=set)
    programs: list[tuple[int, Attempt, int]] = field(default_factory=list)  # pid, attempt, worker
    _offset: int = 0

    def follow(self) -> None:
        """Take in what was written since."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode().splitlines():
            self._take(line.split())

    def _take(self, fields: list[str]) -> None:
        word, task, _, fence, pid, _ = fields[:6]
        attempt = (int(task), int(fence))
        match word:
            case "start":
                self.starts += 1
                self.workers.setdefault(int(pid), processes.born(int(pid)))
                self.busy.add(int(pid))
            case "end":
                self.ended.add(attempt)
                self.busy.discard(int(pid))
            case "overlap":
                self.overlaps.append(int(task))
            case "program":
                self.programs.append((int(fields[6]), attempt, int(pid)))

    @property
    def ended_tasks(self) -> set[int]:
        """Tasks whose handler came to its end at least once."""
        return {task for task, _ in self.ended}


@dataclass
class Program:
    """A program that a handler left; `over_at`: since when its attempt is over."""

    born: str | None
    attempt: Attempt
    worker: int
    over_at: float | None = None


@dataclass
class Census:
    """Watches the programs that attempts left, and names those that outlive them."""

    log: Log
    strays: list[int] = field(default_factory=list)
    seen: int = 0
    _watched: dict[int, Program] = field(default_factory=dict)

    def look(self, now: float, quiet_since: float) -> None:
        """`quiet_since`: since when every parent can do its work (it is not stopped, nor just gone)."""
        for pid, attempt, worker in self.log.programs[self.seen :]:
            self._watched[pid] = Program(processes.born(pid), attempt, worker)
        self.seen = len(self.log.programs)
        for pid, program in list(self._watched.items()):
            if not is_still(pid, program.born):
                del self._watched[pid]
            elif self._is_stray(program, now, quiet_since):
                self.strays.append(pid)
                del self._watched[pid]

    def _is_stray(self, program: Program, now: float, quiet_since: float) -> bool:
        over = program.attempt in self.log.ended or processes.gone(program.worker)
        if not over:
            return False
        if program.over_at is None:
            program.over_at = now
        return now - max(program.over_at, quiet_since) > STRAY_SECONDS

    def left_at_the_end(self) -> list[int]:
        """Of everything that was ever seen, what still runs."""
        seen = {pid: program.born for pid, program in self._watched.items()} | self.log.workers
        return sorted(pid for pid, born in seen.items() if is_still(pid, born))


def is_still(pid: int, born: str | None) -> bool:
    """Whether this very process runs; its number alone may be another's by now."""
    return born is not None and processes.born(pid) == born and not processes.gone(pid)


# No handler of a campaign fails by itself: dead is only who was killed as often as it may be.
GAVE_UP = """
    select task_id from runner.task
    where state = 'dead' and attempt < max_attempts and cause not like 'interrupted%'
    order by task_id"""


@dataclass(frozen=True)
class Judgement:
    """What a campaign came to. Empty lists are what is promised."""

    acknowledged: int
    completed: int
    dead: int
    left: int
    starts: int
    lost: list[int]
    doubled: list[int]
    undeleted: list[int]  # an effect, and the task is still there
    gave_up: list[int]  # dead with attempts and interruptions left
    overlaps: list[int]
    strays: list[int]
    census: int  # programs that were watched

    @property
    def violations(self) -> int:
        """How often something was not as promised."""
        kinds = (
            self.lost,
            self.doubled,
            self.undeleted,
            self.gave_up,
            self.overlaps,
            self.strays,
        )
        return sum(map(len, kinds))


def judge(
    conn: psycopg.Connection[tuple[Any, ...]],
    acknowledged: Iterable[int],
    outside: Iterable[int],
    log: Log,
    strays: list[int],
    census: int = 0,
) -> Judgement:
    """Compare ledger, effects, rows and log. `outside`: tasks that leave no effect in the database."""
    effects = Counter(
        dict(conn.execute("select task_id, count(*) from effect group by 1").fetchall())
    )
    rows = dict(conn.execute("select task_id, state from runner.task").fetchall())
    gave_up = conn.execute(GAVE_UP).fetchall()
    ledger, seen_outside = set(acknowledged), set(outside)
    done = set(effects) | (seen_outside & log.ended_tasks)
    return Judgement(
        acknowledged=len(ledger),
        completed=len(ledger & done),
        dead=sum(state == "dead" for state in rows.values()),
        left=sum(state != "dead" for state in rows.values()),
        starts=log.starts,
        lost=sorted(ledger - done - set(rows)),
        doubled=sorted(task for task, count in effects.items() if count > 1),
        undeleted=sorted(set(effects) & set(rows)),
        gave_up=[task_id for (task_id,) in gave_up],
        overlaps=log.overlaps,
        strays=strays,
        census=census,
    )
