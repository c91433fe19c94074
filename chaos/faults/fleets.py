"""What befalls fleets: their processes are killed, stopped, and get no memory."""

import random
import resource
import signal
from contextlib import suppress

from chaos import processes
from chaos.faults.waiting import Waits, frozen, send
from chaos.stage import LEASE_SECONDS, Missed, Stage

RESTART_SECONDS = 0.2
CONTROL_LEASES = 3.0  # how long the control arm freezes


def kill_worker(stage: Stage, rng: random.Random) -> Waits:
    pid = stage.child(rng, worker=True)
    send(pid, signal.SIGKILL)
    yield 0.0


def kill_helper(stage: Stage, rng: random.Random) -> Waits:
    """Renewer, maintainer or log, or a worker that has not begun anything yet."""
    pid = stage.child(rng, worker=False)
    send(pid, signal.SIGKILL)
    yield 0.0


def kill_parent(stage: Stage, rng: random.Random) -> Waits:
    runner = stage.runner(rng)
    with stage.lasting_on(runner):
        runner.kill()
        yield RESTART_SECONDS
        runner.start()


def stop_runner(stage: Stage, rng: random.Random) -> Waits:
    """A graceful stop, as in a deploy."""
    runner = stage.runner(rng)
    with stage.lasting_on(runner):
        send(runner.pid, signal.SIGTERM)
        while runner.alive:
            yield 0.05
        runner.start()


def freeze_parent(stage: Stage, rng: random.Random) -> Waits:
    runner = stage.runner(rng)
    with stage.lasting_on(runner):
        yield from frozen([runner.pid], LEASE_SECONDS * rng.uniform(1, 3))


def freeze_worker(stage: Stage, rng: random.Random) -> Waits:
    pid = stage.child(rng, worker=True)
    yield from frozen([pid], LEASE_SECONDS * rng.uniform(0.2, 3))


def freeze_both(stage: Stage, rng: random.Random) -> Waits:
    """A parent with all that it has: as when a machine sleeps."""
    runner = stage.runner(rng)
    with stage.lasting_on(runner):
        family = [runner.pid, *processes.children_of(runner.pid)]
        yield from frozen(family, LEASE_SECONDS * rng.uniform(1, 3))


def freeze_busy(stage: Stage, rng: random.Random, *, whole: bool) -> Waits:
    """A fleet whose handlers are at work, until somebody else must have taken their tasks."""
    while not (busy := [one for one in stage.runners if one.alive and stage.is_busy(one)]):
        yield 0.1
    runner = rng.choice(busy)
    with stage.lasting_on(runner):
        children = processes.children_of(runner.pid) if whole else []
        yield from frozen([runner.pid, *children], LEASE_SECONDS * CONTROL_LEASES)


def starve_memory(stage: Stage, rng: random.Random) -> Waits:
    """A worker that gets no more memory for a second: whatever it does next may fail."""
    pid = stage.child(rng, worker=True)
    try:
        limit = processes.address_space(pid)
        soft, hard = resource.prlimit(pid, resource.RLIMIT_AS)
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, hard))
    except (ProcessLookupError, FileNotFoundError) as error:
        raise Missed from error
    yield 1.0
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_AS, (soft, hard))
