"""The tables: as shipped, safely stored, and clean."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...units import duration
from . import Finding, fail, ok, several, warn

OLD_SNAPSHOT_SECONDS = 300.0
VERY_OLD_SECONDS = 86400.0
MANY_DEAD_ROWS = 50_000
SHOWN = 3
REPLACED = ("function ", "trigger ")  # by schema.sql, when they are there already


class Table(NamedTuple):
    """One of our tables."""

    name: str
    logged: bool
    no_identity: bool  # updates and deletes cannot be replicated
    unvacuumed: bool
    live: int
    dead: int
    vacuumed_seconds_ago: float | None
    published: bool


class Holder(NamedTuple):
    """Somebody who keeps an old snapshot; `seconds` is None where PostgreSQL hides it."""

    kind: str
    who: str
    seconds: float | None


def shape(shipped: Mapping[str, str], found: Mapping[str, str], version: int | None) -> Finding:
    """The schema against the one that this program ships."""
    missing = [thing for thing in shipped if thing not in found]
    changed = [thing for thing in shipped if thing in found and found[thing] != shipped[thing]]
    if missing or changed:
        parts = [("missing", missing), ("changed", changed)]
        told = "; ".join(f"{word}: {_some(things)}" for word, things in parts if things)
        by_hand = [thing for thing in changed if not thing.startswith(REPLACED)]
        mend = "run schema.sql again (psql -f): it puts back what is missing"
        if by_hand:
            mend += f"; change {_some(by_hand)} to what it says there by hand"
        return fail("schema", told, mend)
    if added := [thing for thing in found if thing not in shipped]:
        return warn("schema", f"not ours: {_some(added)}", "see that it does no harm at an upgrade")
    return ok("schema", f"version {version}, as shipped ({len(shipped)} things)")


def _some(things: Sequence[str]) -> str:
    more = len(things) - SHOWN
    return ", ".join(things[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def stored(tables: Sequence[Table]) -> Finding:
    """A crash empties unlogged tables; a subscriber stops at rows that it cannot find."""
    if unlogged := [one.name for one in tables if not one.logged]:
        told = f"{', '.join(unlogged)} unlogged: a crash of the server empties it"
        return fail("storage", told, f"run: alter table runner.{unlogged[0]} set logged")
    if stuck := [one.name for one in tables if one.published and one.no_identity]:
        told = (
            f"{', '.join(stuck)} published without a replica identity: its updates and deletes fail"
        )
        return fail("storage", told, f"run: alter table runner.{stuck[0]} replica identity full")
    if published := [one.name for one in tables if one.published]:
        told = f"{', '.join(published)} in a publication: tasks may run on the subscriber as well"
        return warn("storage", told, "leave the schema runner out of publications")
    return ok("storage", "logged, and in no publication")


def clean(tables: Sequence[Table], autovacuum: str) -> Finding:
    """Dead rows make every claim dearer; only a vacuum takes them away."""
    if autovacuum != "on":
        return fail("vacuum", "autovacuum is off: tables and indexes grow for ever", "set it on")
    if off := [one.name for one in tables if one.unvacuumed]:
        told = f"autovacuum is off for {', '.join(off)}"
        return fail("vacuum", told, f"run: alter table runner.{off[0]} reset (autovacuum_enabled)")
    worst = max(tables, key=lambda one: one.dead)
    told = f"{worst.dead} dead rows in {worst.name} beside {worst.live} live ones"
    if worst.dead > max(MANY_DEAD_ROWS, worst.live):
        last = worst.vacuumed_seconds_ago
        when = "never vacuumed" if last is None else f"last vacuumed {duration(last)} ago"
        return warn(
            "vacuum",
            f"{told}, {when}",
            f"look at `snapshots`; if there is none, vacuum runner.{worst.name}",
        )
    return ok("vacuum", told)


def snapshots(holders: Sequence[Holder]) -> Finding:
    """An old snapshot keeps the rows of every task done since."""
    old = [one for one in holders if (one.seconds or 0) > OLD_SNAPSHOT_SECONDS]
    if not old:
        oldest = max((one.seconds or 0.0 for one in holders), default=0.0)
        return ok("snapshots", f"the oldest transaction is {duration(oldest)} old")
    first = old[0]
    since = "left behind" if (first.seconds or 0) >= 1e9 else f"for {duration(first.seconds or 0)}"
    more = f", and {several(len(old) - 1, 'other')}" if len(old) > 1 else ""
    told = f"{first.kind} {first.who} holds a snapshot {since}{more}"
    advice = {
        "session": "end it (pg_terminate_backend), or run long reads on a standby",
        "prepared transaction": "end it: commit prepared, or rollback prepared",
        "replication slot": "start its reader, or drop it (pg_drop_replication_slot)",
    }[first.kind]
    very = (first.seconds or 0) > VERY_OLD_SECONDS
    return (fail if very else warn)("snapshots", told, advice)
