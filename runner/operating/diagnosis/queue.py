"""The queue itself: the invariants of its rows, leases that nobody sweeps, work that nobody does."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..standing import named, resume
from . import Finding, fail, ok, several, warn

SHOWN = 5


class Broken(NamedTuple):
    """So many tasks break an invariant, said in words; the first of them by id."""

    broken: str
    tasks: int
    first: int


class LeaseFacts(NamedTuple):
    """Leases of workers, as the database's clock has them."""

    alive: int
    unswept: int  # over for longer than the slowest sweep takes
    beyond: int  # ends later than any renewal could have made it: the clock was set back
    left_parents: int  # rows of parents without workers that nobody pruned
    silent: int = 0  # hold, and were not renewed for half their length


class Work(NamedTuple):
    """What waits."""

    ready: int
    dead: int
    overdue: int  # due for a minute, and not promoted
    done_before: int  # waits under a key that was completed
    known_types: list[str] | None  # of workers that live
    waiting_types: list[str] | None
    waiting_queues: list[str] | None = None


class Pause(NamedTuple):
    """What is not claimed for now: a queue, a type, or a type in a queue."""

    queue: str | None
    task_type: str | None
    forgotten: bool  # without an end, for a day
    kept_back: int  # ready tasks


class Ids(NamedTuple):
    """The largest id in the table, and the last that was given out."""

    largest: int | None
    last: int | None
    visible: bool


def rows(found: Sequence[Broken]) -> Finding:
    """No correct run leaves such rows; somebody wrote them by hand, or a CHECK is gone."""
    if not found:
        return ok("tasks", "every row keeps the invariants")
    told = "; ".join(
        f"{several(one.tasks, 'task')} {one.broken} (task {one.first})" for one in found
    )
    return fail("tasks", told, f"look: runner show {found[0].first}; see `schema` for lost CHECKs")


def leases(seen: LeaseFacts) -> Finding:
    """An ended lease is swept by any fleet or drain that runs; its tasks wait until then."""
    if seen.unswept:
        told = f"{several(seen.unswept, 'lease')} ended, and nobody sweeps: their tasks wait"
        return fail("leases", told, "start a fleet, or run: runner drain")
    if seen.beyond:
        told = f"{several(seen.beyond, 'lease')} end later than can be: the server's clock was set back"
        return warn("leases", told, "nothing: a sweep judges by its own clock; see to the clock")
    if seen.silent:
        told = f"{several(seen.silent, 'lease')} not renewed for half their length: host or parent lost?"
        return warn(
            "leases", told, "see: runner workers --by-host; a sweep takes them when they end"
        )
    if seen.left_parents:
        told = f"{several(seen.left_parents, 'parent')} without workers, not forgotten yet"
        return warn("leases", told, "nothing, if a fleet runs: its next pass forgets them")
    return ok("leases", f"{several(seen.alive, 'lease')} alive, none overdue")


def ids(seen: Ids) -> Finding:
    """A sequence that lags, as after a restore, gives ids out twice."""
    if not seen.visible:
        return ok("ids", "not to be seen by this login")
    if (seen.largest or 0) > (seen.last or 0):
        told = f"the next id is below task {seen.largest}: adding tasks will fail"
        return fail(
            "ids",
            told,
            "run: select setval('runner.task_task_id_seq', (select max(task_id) from runner.task))",
        )
    return ok("ids", "the sequence is ahead of the table")


def work(seen: Work, served_queues: Collection[str] | None = None) -> Finding:
    """Whether somebody does what waits. `served_queues`: by workers that live; None: every one."""
    if seen.overdue:
        told = f"{several(seen.overdue, 'task')} due for a minute and more, and nobody promotes"
        return warn("work", told, "start a fleet, or run: runner drain")
    if seen.ready and seen.known_types is None:
        told = f"{several(seen.ready, 'task')} ready, and no worker lives"
        return warn("work", told, "start a fleet, or run: runner drain")
    alone = sorted(set(seen.waiting_queues or ()) - set(served_queues or ()))
    if seen.ready and served_queues is not None and alone:
        told = f"served by no worker: {', '.join(f'queue {one}' for one in alone[:SHOWN])}"
        return warn("work", told, "start a fleet for it, or one without --queue")
    unknown = sorted(set(seen.waiting_types or ()) - set(seen.known_types or ()))
    if seen.ready and unknown:
        told = f"not implemented by any worker: {', '.join(unknown[:SHOWN])}"
        return warn("work", told, "see: runner todo")
    if seen.done_before:
        told = f"{several(seen.done_before, 'task')} under keys that are done: they will do nothing"
        return warn("work", told, "nothing: they are deleted when claimed")
    return ok("work", f"{seen.ready} ready, nothing overdue")


def pauses(found: Sequence[Pause]) -> Finding:
    """A pause is somebody's will, and is forgotten all the same."""
    if not any(one.kept_back or one.forgotten for one in found):
        return ok("pauses", f"{several(len(found), 'pause')}, nothing waits" if found else "none")
    worst = max(found, key=lambda one: (one.kept_back, one.forgotten))
    told = f"{named(worst.queue, worst.task_type)} is paused"
    told += f": {several(worst.kept_back, 'ready task')} kept back" if worst.kept_back else ""
    told += ", without an end for more than a day" if worst.forgotten else ""
    others = f" (and {several(len(found) - 1, 'pause')} more)" if len(found) > 1 else ""
    advice = f"when that is over: {resume(worst.queue, worst.task_type)}"
    return warn("pauses", told + others, advice)


def dead(seen: Work) -> Finding:
    """The dead wait for a person."""
    if seen.dead:
        return warn("dead", f"{several(seen.dead, 'task')} dead", "see: runner todo")
    return ok("dead", "none")
