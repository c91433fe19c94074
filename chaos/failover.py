"""`scripts/chaos failover`: a streaming standby is promoted under load, the old primary being gone.

The fleet's URL names both servers with `target_session_attrs=read-write`. With a synchronous standby
nothing that was acknowledged may be lost. With an asynchronous one, which is made to lag, what had not
been streamed is gone: tasks, claims, effects and deletions alike. What is left still agrees: an effect
if and only if the row is absent. But a claim that is forgotten may be made again before the fleet has
heard of that, which is within one renewal: so there may be overlaps, each with a higher fence.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from chaos import server, witnesses
from chaos.feeder import Feeder, Food
from chaos.patience import until
from chaos.runners import Runner
from chaos.server import Place, Server
from chaos.witnesses import Judgement, Log, judge

DATABASE = "failover"
OPTIONS = ("--procs", "4", "--lease", "5s", "--renew", "800ms", "--grace", "2s")
FOOD = Food({"quick": 60, "grouped": 20, "slow": 20}, (0.0, 0.0), backlog=60, batch=10)
STANDBY = "standby"
LAG_SECONDS = 0.5


@dataclass
class Result:
    """`away_seconds`: in which nothing was started; `undone`: effects that the new primary lacks."""

    synchronous: bool
    judgement: Judgement
    away_seconds: float
    undone: int


@contextmanager
def pair(synchronous: bool, binaries: Path | None = None) -> Iterator[tuple[Place, Server, Server]]:
    """A primary at work and its streaming standby."""
    with server.place(binaries) as place:
        first = place.make("first")
        first.initialise()
        first.start()
        first.create(DATABASE)
        witnesses.prepare(first.url(DATABASE))
        second = place.make("second")
        first.clone(second, STANDBY)
        second.start()
        with psycopg.connect(first.url(), autocommit=True) as conn:
            if synchronous:
                conn.execute(f"alter system set synchronous_standby_names = '{STANDBY}'")
                conn.execute("select pg_reload_conf()")
            wanted = "sync" if synchronous else "async"
            until(lambda: _state(conn) == ("streaming", wanted), "the standby streams")
        yield place, first, second


def _state(conn: psycopg.Connection[tuple[str, ...]]) -> tuple[str, ...] | None:
    return conn.execute("select state, sync_state from pg_stat_replication").fetchone()


def both(first: Server, second: Server) -> str:
    """One URL for either, whichever takes writes."""
    hosts, ports = f"{first.sockets},{second.sockets}", f"{server.PORT},{server.PORT}"
    where = f"host={hosts}&port={ports}&target_session_attrs=read-write"
    return f"postgresql://{server.USER}@/{DATABASE}?{where}"


def failover(
    synchronous: bool, seed: int, *, after_seconds: float = 4.0, binaries: Path | None = None
) -> Result:
    """Once: work, the primary's end, promotion, and work to the end."""
    with pair(synchronous, binaries) as (place, first, second):
        directory = place.root / "witnesses"
        directory.mkdir(mode=0o700)
        url = both(first, second)
        runner = Runner("runner", url, directory, OPTIONS)
        log = Log(directory / "log")
        feeder = Feeder(url, directory / "ledger", FOOD, seed)
        runner.start()
        feeder.start()
        try:
            until(lambda: _starts(log) > 50, "work")
            time.sleep(after_seconds)
            if not synchronous:
                _lag(second)
            before = _effects(first)
            first.crash()
            begun, seen = time.monotonic(), _starts(log)
            undone = max(0, before - _effects(second))
            second.promote()
            until(lambda: _starts(log) > seen, "work after the promotion")
            away = time.monotonic() - begun
            time.sleep(2)
            feeder.stop()
            with psycopg.connect(second.url(DATABASE), autocommit=True) as conn:
                left = "select from runner.task where state <> 'dead' limit 1"
                until(lambda: not conn.execute(left).rowcount, "all done")
                log.follow()
                judged = judge(conn, feeder.acknowledged, feeder.outside, log, [])
        finally:
            feeder.stop()
            runner.stop()
        return Result(synchronous, judged, away, undone)


def _lag(standby: Server) -> None:
    """Have it receive nothing more for a while."""
    with psycopg.connect(standby.url(), autocommit=True) as conn:
        conn.execute("alter system set primary_conninfo = ''")
        conn.execute("select pg_reload_conf()")
    time.sleep(LAG_SECONDS)


def _starts(log: Log) -> int:
    log.follow()
    return log.starts


def _effects(one: Server) -> int:
    with psycopg.connect(one.url(DATABASE), autocommit=True) as conn:
        row = conn.execute("select count(*) from effect").fetchone()
    return row[0] if row else 0


def main() -> int:
    """0: with a synchronous standby nothing is lost; with either nothing doubled."""
    parser = argparse.ArgumentParser(prog="scripts/chaos failover", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="of each kind (default: 5)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    bad = 0
    for synchronous in (True, False):
        for _ in range(options.times):
            result = failover(synchronous, rng.getrandbits(32), after_seconds=rng.uniform(1, 4))
            judged = result.judgement
            bad += wrong(result)
            sys.stdout.write(
                f"{'synchronous ' if synchronous else 'asynchronous'}"
                f"  {judged.acknowledged} acknowledged, {judged.completed} completed:"
                f" lost {len(judged.lost)}, doubled {len(judged.doubled)},"
                f" effect beside its row {len(judged.undeleted)}, overlaps {len(judged.overlaps)};"
                f" {result.undone} effects undone, nothing started for {result.away_seconds:.1f} s\n"
            )
            sys.stdout.flush()
    return 1 if bad else 0


def wrong(result: Result) -> int:
    """How often something was not as promised."""
    judged = result.judgement
    if result.synchronous:
        return judged.violations
    return len(judged.doubled) + len(judged.undeleted)


if __name__ == "__main__":
    sys.exit(main())
