"""A census of open descriptors: no process of a fleet, and no program of a handler, has another's."""

import os
from collections import defaultdict
from pathlib import Path

import pytest

from tests.fleets import Work, running, wait_registered, work
from tests.servers import process_state, wait_until

pytestmark = pytest.mark.process

WORKERS = 3


def census(pid: int) -> dict[int, tuple[str, str]]:
    """Descriptor -> (what it is, r / w / rw)."""
    found = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
            flags = (
                Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text().split("flags:")[1].split()[0]
            )
        except OSError:
            continue
        found[int(entry.name)] = (target, ("r", "w", "rw")[int(flags, 8) & 3])
    return found


def below(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_nobody_holds_what_is_not_theirs(fresh: str, tmp_path: Path) -> None:
    with work(fresh, tmp_path) as queue:
        queue.add("programs", seconds=30)
        with running(fresh, tmp_path, procs=WORKERS) as fleet:
            workers = wait_registered(queue, WORKERS)
            wait_until(lambda: (tmp_path / "programs").exists(), 20, "a handler with programs")
            children = below(fleet.pid)
            wait_until(lambda: len(_sessions(queue)) >= WORKERS + 2, 20, "all connected")
            seen = {pid: census(pid) for pid in [fleet.pid, *children]}
            programs = [int(pid) for pid in (tmp_path / "programs").read_text().split()]
            theirs = {pid: census(pid) for pid in programs if process_state(pid)}
    assert len(children) == WORKERS + 3
    assert len(theirs) == 3
    _check_sockets(seen, set(workers.values()), fleet.pid)
    _check_pipes(seen, set(workers.values()), fleet.pid)
    for held in theirs.values():
        # Its streams, and the life pipe of none: nothing of ours.
        assert set(held) <= {0, 1, 2}, held


def _sessions(queue: Work) -> list[int]:
    query = "select pid from pg_stat_activity where application_name like 'runner %'"
    return [row[0] for row in queue.conn.execute(query)]


def _check_sockets(
    seen: dict[int, dict[int, tuple[str, str]]], workers: set[int], parent: int
) -> None:
    """A connection to the database belongs to one process; the parent has none."""
    holders = defaultdict(set)
    for pid, held in seen.items():
        for target, _ in held.values():
            if target.startswith("socket:"):
                holders[target].add(pid)
    # The pairs over which the parent asks the renewer, and hands figures to the maintainer.
    shared = {target: pids for target, pids in holders.items() if len(pids) > 1}
    assert all(parent in pids and len(pids) == 2 for pids in shared.values()), shared
    assert not any(pids & workers for pids in shared.values()), shared
    assert len(shared) <= 2, shared
    mine = [target for target, pids in holders.items() if pids == {parent}]
    assert len(mine) <= 4, mine  # its ends of those pairs, and the pair that signals wake it by


def _check_pipes(
    seen: dict[int, dict[int, tuple[str, str]]], workers: set[int], parent: int
) -> None:
    """Whatever a child can write to or read from, apart from what all of a kind share, is its own."""
    ends = defaultdict(set)
    for pid, held in seen.items():
        for target, mode in held.values():
            if target.startswith("pipe:"):
                ends[target, mode].add(pid)
    children = set(seen) - {parent}
    shared = [sorted(pids - {parent}) for pids in ends.values() if len(pids - {parent}) > 1]
    everybody, of_workers = sorted(children), sorted(workers)
    writers = [pids for (_, mode), pids in ends.items() if mode == "w" and children <= pids]
    assert len(writers) <= 2, "the events of all, and the log of all"
    strange = [
        pids
        for pids in shared
        if pids != everybody  # events; the log, as its writers
        and pids != of_workers  # the read end of their wake pipe
        and not set(of_workers) < set(pids)  # what the maintainer and all workers share: wake
        and len(set(everybody) - set(pids)) > 1  # the log of all but its reader
    ]
    assert strange == []
    # A life pipe is at its end when the parent is gone: nobody else may hold a writing end of what a
    # child reads alone.
    for (target, mode), pids in ends.items():
        if mode == "r" and len(pids - {parent}) == 1 and parent not in pids:
            writing = ends[target, "w"] - {parent}
            assert writing <= pids or len(writing) > WORKERS, (target, pids, writing)
