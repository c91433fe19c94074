"""`scripts/hosts patroni`: the primary of three Patroni nodes is struck under load, again and again.

The fleet and the feeder are on a host of their own, and reach the primary through HAProxy there or by a
URL with all three names. Struck are its PostgreSQL (also when the standbys are behind), its Patroni
(which comes back once another leads), and its network; a switchover is no strike, but asked for. With
synchronous replication nothing acknowledged may be lost. With asynchronous replication what had not been
streamed is gone, in one piece for each failover; what is left agrees.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psycopg

from chaos import patroni, witnesses
from chaos.feeder import Feeder, Food
from chaos.hosts import Host
from chaos.patience import until
from chaos.patroni import PASSWORD, PATIENCE_SECONDS, Node, Trio
from chaos.runners import Runner
from chaos.strikes import KINDS, STRIKES, come_back
from chaos.strikes import strike as strike_at
from chaos.witnesses import Judgement, Log, judge
from runner.store import schema

DATABASE = "replicated"
FRONTS = ("haproxy", "urls")
OPTIONS = (
    *("--procs", "4", "--lease", "5s", "--renew", "800ms", "--grace", "5s"),
    *("--backoff", "200ms:1s"),
)
FOOD = Food({"quick": 60, "grouped": 20, "slow": 20}, (0.0, 0.0), backlog=60, batch=10)
KEPT_ALIVE = "connect_timeout=3&keepalives_idle=2&keepalives_interval=1&keepalives_count=3"
WORKED = 50  # starts that show that the fleet works
QUIET_SECONDS = 1.0


def lacking(front: str) -> str | None:
    """What is missing, as a reason to skip."""
    if reason := patroni.lacking():
        return reason
    missing = front == "haproxy" and shutil.which("haproxy") is None
    return "haproxy is not installed" if missing else None


@dataclass
class Round:
    """One strike: how long nothing was started, and whether another node led after it."""

    strike: str
    away_seconds: float
    moved: bool
    lost: int  # of all that was acknowledged until then
    again: bool  # whether the old primary leads again, after another did


@dataclass
class Result:
    """The rounds on one trio, and what the witnesses say at the end."""

    synchronous: bool
    judgement: Judgement
    renewed: int  # nodes that did not come back by themselves
    pieces: int  # runs of neighbours, in the order of acknowledgement, that are lost
    reissued: int  # ids that were acknowledged twice: of a task that was lost, and of the next one
    rounds: list[Round] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        """What was not as promised."""
        judged = self.judgement
        found = {"doubled": len(judged.doubled), "effect beside its row": len(judged.undeleted)}
        if self.synchronous:
            found |= {"lost": len(judged.lost), "overlaps": len(judged.overlaps)}
            found |= {"lost, its id given again": self.reissued}
        found |= {"left": judged.left, "dead": judged.dead}
        found["neither done, nor left, nor lost"] = (
            judged.acknowledged - judged.completed - len(judged.lost) - judged.left - judged.dead
        )
        found["lost piece beyond the failovers"] = max(0, self.pieces - len(self.rounds))
        return [f"{count} {what}" for what, count in found.items() if count]


class Replicated:
    """A fleet and a feeder at work before a trio."""

    def __init__(self, made: Trio, runner: Runner, feeder: Feeder, log: Log) -> None:
        self.trio, self.runner, self.feeder, self.log = made, runner, feeder, log
        self.watchdog = True

    def run(self, strikes: Sequence[str]) -> Result:
        """One round for each, then until everything is done."""
        self.runner.start()
        self.feeder.start()
        rounds = []
        for strike in strikes:
            rounds.append(self._round(strike))
            _say(self.trio, rounds[-1])
        self.feeder.stop()
        leader = self.trio.whole()
        with psycopg.connect(leader.url(DATABASE), autocommit=True) as conn:
            left = "select from runner.task where state <> 'dead' limit 1"
            until(lambda: not conn.execute(left).rowcount, "all done", PATIENCE_SECONDS)
            self.log.follow()
            judged = judge(conn, self.feeder.acknowledged, self.feeder.outside, self.log, [])
        pieces = self._pieces(judged.lost)
        ledger = self.feeder.acknowledged
        again = len(ledger) - len(set(ledger))
        return Result(self.trio.synchronous, judged, self.trio.renewed, pieces, again, rounds)

    def _round(self, strike: str) -> Round:
        old = self.trio.whole()
        # The next timeline begins in a file of its own: within one file a node that was away finds its
        # way through several of them not always.
        old.ask("select pg_switch_wal()")
        self._works()
        begun = time.clock_gettime(time.CLOCK_BOOTTIME)
        strike_at(old, strike)
        # A PostgreSQL that crashed may also be started again where it was.
        but = None if strike in ("postgres", "lagging") else old
        until(lambda: self.trio.leader(but), f"a leader after {strike}", PATIENCE_SECONDS)
        if strike == "patroni":
            time.sleep(QUIET_SECONDS)  # two are primaries now
            old.start_patroni(self.trio.peers)
        until(
            lambda: self._is_used(self.trio.leader(but)), f"work after {strike}", PATIENCE_SECONDS
        )
        self._works()
        if strike == "network":
            come_back(old, self.trio.peers, self.watchdog)
        now = self.trio.whole()
        moved, again = but is old or now is not old, but is old and now is old
        return Round(strike, self._away(begun), moved, self._lost(now), again)

    def _lost(self, leader: Node) -> int:
        """Acknowledged tasks that have neither a row nor an effect now."""
        acknowledged = set(self.feeder.acknowledged)
        with psycopg.connect(leader.url(DATABASE), autocommit=True) as conn:
            there = "select task_id from runner.task union select task_id from effect"
            return len(acknowledged - {int(row[0]) for row in conn.execute(there)})

    def _works(self) -> None:
        """Until so much more was started."""
        self.log.follow()
        seen = self.log.starts

        def more() -> bool:
            self.log.follow()
            return self.log.starts >= seen + WORKED

        until(more, "the fleet at work", PATIENCE_SECONDS)

    def _is_used(self, node: Node | None) -> bool:
        """Whether a session of a worker is there, at work or between two tasks."""
        query = "select count(*) from pg_stat_activity where application_name like 'runner worker%'"
        return node is not None and bool(node.ask(query))

    def _away(self, begun: float) -> float:
        """The longest time since then in which no handler began, in seconds."""
        text = self.log.path.read_text()
        starts = [float(line.split()[5]) for line in text.splitlines() if line.startswith("start")]
        times = [begun, *sorted(at for at in starts if at > begun)]
        return max(after - before for before, after in pairwise(times))

    def _pieces(self, lost: list[int]) -> int:
        gone = set(lost)
        row = [False, *(task in gone for task in self.feeder.acknowledged)]
        return sum(now and not before for before, now in pairwise(row))


def _say(made: Trio, one: Round) -> None:
    how = "synchronous" if made.synchronous else "asynchronous"
    sys.stderr.write(
        f"{how} {one.strike}: nothing started for {one.away_seconds:.1f} s,"
        f" {'another leads' if one.moved else 'the same leads'}"
        f"{', now the old one again' if one.again else ''}, lost until now {one.lost}\n"
    )
    sys.stderr.flush()


@contextlib.contextmanager
def replicated(synchronous: bool, front: str) -> Iterator[Replicated]:
    """Everything in place, nothing started but the nodes."""
    with patroni.trio(synchronous) as made, contextlib.ExitStack() as stack:
        leader = made.whole()
        with psycopg.connect(leader.url(), autocommit=True) as conn:
            conn.execute(f"create database {DATABASE}")
        with psycopg.connect(leader.url(DATABASE), autocommit=True) as conn:
            schema.install(conn)
        witnesses.prepare(leader.url(DATABASE))
        directory = made.root / "witnesses"
        directory.mkdir(mode=0o700)
        host = made.network.add("fleet")
        where = _through_haproxy(stack, made, host, directory) if front == "haproxy" else ""
        url = f"postgresql://postgres:{PASSWORD}@{where or _all(made)}"
        runner = Runner("fleet", url, directory, OPTIONS, host=host)
        with_care = f"{url}{'&' if '?' in url else '?'}{KEPT_ALIVE}"
        feeder = Feeder(with_care, directory / "ledger", FOOD, 1, enter=host.enter)
        stack.callback(lambda: runner.process and runner.stop())
        stack.callback(feeder.stop)
        yield Replicated(made, runner, feeder, Log(directory / "log"))


def _all(made: Trio) -> str:
    names = ",".join(f"{node.host.address}:5432" for node in made.nodes)
    return f"{names}/{DATABASE}?target_session_attrs=read-write"


def _through_haproxy(stack: contextlib.ExitStack, made: Trio, host: Host, directory: Path) -> str:
    """HAProxy on the fleet's host, with the example's configuration; what to connect to."""
    env = {f"RUNNER_DB{n}": node.host.address for n, node in enumerate(made.nodes, 1)}
    config = patroni.DEPLOY / "haproxy" / "haproxy.cfg"
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
    with (directory / "haproxy.log").open("wb") as log:
        process = subprocess.Popen(
            host.command("haproxy", "-db", "-f", str(config)),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": path, **env},
        )  # fmt: skip
    stack.callback(process.wait)
    stack.callback(process.kill)
    return f"127.0.0.1:5000/{DATABASE}"


def failovers(
    synchronous: bool, strikes: Sequence[str], front: str, watchdog: bool = True
) -> Result:
    """All of these strikes on one trio, one after the other."""
    with replicated(synchronous, front) as place:
        place.watchdog = watchdog
        return place.run(strikes)


def main() -> int:
    """0: as promised; 1: not; 2: something is missing."""
    parser = argparse.ArgumentParser(prog="scripts/hosts patroni", description=__doc__)
    add = parser.add_argument
    add("--times", type=int, default=5, help="rounds of each kind (default: 5)")
    add("--strikes", nargs="+", choices=KINDS, default=STRIKES)
    add("--front", choices=FRONTS, default="haproxy")
    add("--modes", nargs="+", choices=("sync", "async"), default=("sync", "async"))
    add("--no-watchdog", action="store_true", help="a host that was cut off is not reset")
    options = parser.parse_args()
    if reason := lacking(options.front):
        sys.stderr.write(f"{reason}\n")
        return 2
    bad = 0
    for mode in options.modes:
        strikes, watchdog = [*options.strikes] * options.times, not options.no_watchdog
        result = failovers(mode == "sync", strikes, options.front, watchdog)
        sys.stdout.write(as_text(result, options.front) + "\n")
        sys.stdout.flush()
        bad += len(result.wrong)
    return 1 if bad else 0


def as_text(result: Result, front: str) -> str:
    """For people: a line for all, and one for each kind of strike."""
    judged = result.judgement
    lines = [
        f"{'synchronous' if result.synchronous else 'asynchronous'}, {front}:"
        f" {len(result.rounds)} strikes, {sum(one.moved for one in result.rounds)} failovers,"
        f" {judged.acknowledged} acknowledged,"
        f" {judged.completed} completed in {judged.starts} attempts: lost {len(judged.lost)} in"
        f" {result.pieces} pieces, ids given twice {result.reissued}, doubled"
        f" {len(judged.doubled)}, effect beside its row {len(judged.undeleted)},"
        f" overlaps {len(judged.overlaps)}:"
        f" {'; '.join(result.wrong) or 'as promised'}"
        f" ({result.renewed} nodes had to be made anew)"
    ]
    for strike in dict.fromkeys(one.strike for one in result.rounds):
        times = [one.away_seconds for one in result.rounds if one.strike == strike]
        lines.append(f"  {strike}: nothing started for {', '.join(f'{t:.1f}' for t in times)} s")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
