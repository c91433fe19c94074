"""The surroundings: server, clock, pooler, connections, rights."""

from collections.abc import Iterable
from typing import NamedTuple

from . import Finding, fail, ok, several, warn

OLDEST_VERSION = 140000
GOOD_VERSION = 150000  # an upper bound by rows ends a scan, whichever column decides
SKEW_SECONDS = 2.0


class Server(NamedTuple):
    """The server as a session sees it."""

    database: str
    login: str
    version: int  # server_version_num
    backend_pid: int  # as the server says
    clock_seconds: float  # since the epoch, by its clock
    standby: bool
    fsync: str
    full_page_writes: str
    autovacuum: str
    read_only: str | None
    lax_commits: str | None


class Connections(NamedTuple):
    """The server's connections; None: without a limit."""

    most: int
    reserved: int
    used: int
    of_login: int | None
    of_database: int | None
    ours: int
    wanted: int  # at most, by the fleets that live

    @property
    def room(self) -> int:
        """How many all of us may have together."""
        limits = [self.most - self.reserved, self.of_login, self.of_database]
        return min(limit for limit in limits if limit is not None)

    @property
    def free(self) -> int:
        """How many more may be opened."""
        return max(0, self.room - self.used)

    def told(self) -> str:
        """Every limit and what is left out of it, in words."""
        limits = {"max_connections": self.most, "the login's limit": self.of_login}
        limits |= {"the database's limit": self.of_database}
        some = ", ".join(f"{name} {limit}" for name, limit in limits.items() if limit is not None)
        return f"{some}, {self.reserved} reserved, {self.used} in use ({self.ours} by fleets)"


class Right(NamedTuple):
    """Something that a kind of work needs, and whether this login may."""

    kind: str
    right_name: str
    may: bool


def version(server: Server) -> Finding:
    """Old enough servers are refused anyway; said here with the rest."""
    name = f"PostgreSQL {server.version // 10000}.{server.version % 10000}"
    if server.version < OLDEST_VERSION:
        return fail("server", f"{name} is too old", "upgrade to PostgreSQL 14 or newer")
    if server.version < GOOD_VERSION:
        told = f"{name} reads the whole index of ready tasks where a worker looks for new kinds of work"
        return warn("server", told, "upgrade to PostgreSQL 15 or newer")
    return ok("server", f"{name}, database {server.database}, as {server.login}")


def writable(server: Server) -> Finding:
    """A fleet and whoever enqueues must be able to write."""
    if server.standby:
        return fail("writable", "this is a standby", "connect to the primary")
    if server.read_only:
        return fail(
            "writable",
            "transactions are read-only by default for this database or some role",
            "run: alter database … reset default_transaction_read_only",
        )
    return ok("writable", "a primary, and not read-only")


def durable(server: Server) -> Finding:
    """What is committed must survive a crash: claims, completions, enqueued tasks."""
    off = [name for name in ("fsync", "full_page_writes") if getattr(server, name) != "on"]
    if off:
        what = " and ".join(f"{name} is off" for name in off)
        return fail(
            "durability", f"{what}: a crash may lose tasks, or all data", f"set {off[0]} = on"
        )
    if server.lax_commits:
        return warn(
            "durability",
            f"{server.lax_commits} for this database or some role: a crash may forget what was enqueued",
            "leave synchronous_commit on for who enqueues; a fleet sets it for itself",
        )
    return ok("durability", "fsync, full_page_writes and synchronous_commit are on")


def clock(server: Server, local_seconds: float, uncertain_seconds: float) -> Finding:
    """`local_seconds`: this host's clock when the server's was read, known to within `uncertain`."""
    skew = server.clock_seconds - local_seconds
    where = "ahead of" if skew > 0 else "behind"
    told = f"the database's clock is {abs(skew):.1f} s {where} this host's"
    if abs(skew) > SKEW_SECONDS + uncertain_seconds:
        return warn(
            "clock", told, "run NTP on both: leases do not mind, but run_at and times in logs do"
        )
    return ok("clock", f"within {max(abs(skew), uncertain_seconds):.1f} s of the database's")


def pooler(server: Server, pid_of_connection: int, in_transaction_mode: bool) -> Finding:
    """The pid that a connection was told at its start is not the server's where a pooler answered."""
    if in_transaction_mode:
        return warn(
            "pooler",
            "connected through a pooler in transaction mode",
            "there is no LISTEN: give the fleet a direct URL, or let it poll",
        )
    if pid_of_connection != server.backend_pid:
        return ok("pooler", "connected through a pooler in session mode")
    return ok("pooler", "connected directly")


def connections(seen: Connections, procs: int, helpers: int) -> Finding:
    """Whether the fleets that live, and one of `procs` workers, have room."""
    needed = procs + helpers
    free, numbers = seen.free, seen.told()
    if seen.wanted > max(0, seen.room - (seen.used - seen.ours)):
        return fail(
            "connections",
            f"the fleets that run want up to {seen.wanted}, and there is no room: {numbers}",
            "raise max_connections, or run fewer workers",
        )
    if needed > free:
        return warn(
            "connections",
            f"{procs} workers more need {needed} ({procs} + {helpers}), {free} are free: {numbers}",
            "raise max_connections, or run fewer workers",
        )
    return ok(
        "connections",
        f"{free} free: {procs} workers more need {needed} ({procs} + {helpers}); {numbers}",
    )


def rights(login: str, seen: Iterable[Right]) -> Finding:
    """A kind of work that a login may do in part is a grant that was forgotten."""
    by_kind: dict[str, list[Right]] = {}
    for one in seen:
        by_kind.setdefault(one.kind, []).append(one)
    whole = [kind for kind, needed in by_kind.items() if all(one.may for one in needed)]
    if "look" not in whole:
        missing = [one.right_name for one in by_kind["look"] if not one.may]
        return fail("privileges", f"{login} may not look: {', '.join(missing)}", _GRANT)
    # `act` shares rights with `work`: who works is not meant to act.
    wants_to_work = any(one.may for one in by_kind["work"] if "runner.worker" in one.right_name)
    if wants_to_work and "work" not in whole:
        missing = [one.right_name for one in by_kind["work"] if not one.may]
        return fail("privileges", f"{login} may work only in part: {', '.join(missing)}", _GRANT)
    return ok("privileges", f"{login} may {', '.join(sorted(whole))}")


_GRANT = "see deploy/roles.sql, and run it again after a migration"


def hidden(count: int) -> Finding | None:
    """Sessions that cannot be judged; None when there are none."""
    if not count:
        return None
    return warn(
        "visibility",
        f"{several(count, 'session')} of other roles cannot be looked into",
        "grant pg_read_all_stats to this login, or run this as the owner",
    )
