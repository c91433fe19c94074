"""Drains on several hosts at once, and a host that joins them on the way."""

import dataclasses
import json
import time
from typing import Any

from chaos.runners import Runner
from chaos.scale.ground import Found, Ground

NAP = 0.1
PATIENCE_SECONDS = 300


def draining(ground: Ground, tasks: int) -> Found:
    """All hosts but the last begin; that joins when a third is done. There is more to do until it has
    had a part of it."""
    first = ground.add("slow", tasks, seconds=NAP)[0]
    drains = [_drain(one) for one in ground.runners]
    late = drains[-1]
    for one in drains[:-1]:
        one.start()
    ground.until(lambda: ground.left() <= tasks * 2 / 3, "a third done", PATIENCE_SECONDS)
    late.start()
    end = time.monotonic() + PATIENCE_SECONDS
    while not ground.shares(first)[late.name] and time.monotonic() < end:
        if ground.left() < tasks / 3:
            ground.add("slow", tasks // 6, seconds=NAP)
        time.sleep(0.05)
    codes = [_end(one) for one in drains]
    told = [_told(ground, one) for one in drains]
    shares = ground.shares(first)
    count = len(ground.added) - ground.added.index(first)
    ok = sum(each.get("ok", 0) for each in told)
    wrong = [f"exit codes {codes}"] if any(codes) else []
    wrong += [f"{ok} told as done, of {count}"] if ok != count else []
    wrong += [f"{ground.left()} left"] if ground.left() else []
    wrong += [] if shares[late.name] else [f"{late.name} had no part"]
    said = (
        f"drains on {len(drains)} hosts at once, {late.name} joining on the way: {count} tasks,"
        f" told as done {ok} ({' '.join(f'{n}={c}' for n, c in shares.items())}), exit codes {codes}"
    )
    return Found(said, wrong + ground.faults())


def _drain(runner: Runner) -> Runner:
    """A drain on the host of a fleet that is stopped."""
    options = (*runner.options, "--overlap", "allow", "--json")
    return dataclasses.replace(
        runner, name=runner.name, verb="drain", options=options, process=None
    )


def _end(drain: Runner) -> int:
    assert drain.process is not None
    return drain.process.wait(PATIENCE_SECONDS)


def _told(ground: Ground, drain: Runner) -> dict[str, Any]:
    """What it printed at its end."""
    lines = (ground.made.directory / f"{drain.name}.log").read_text().splitlines()
    objects = [line for line in lines if line.startswith('{"ok"')]
    found: dict[str, Any] = json.loads(objects[-1]) if objects else {}
    return found
