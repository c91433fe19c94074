"""What the person must know first: sentences, the worst on top. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from ..operating.standing import standstills
from ..text import plural
from . import cells
from .columns import is_near_limit
from .scene import Scene
from .snapshot import STALE_SECONDS

DEATH_SECONDS = 60.0  # how long a death is news
BAD, WARN = "bold white on red", "yellow"


class Alert(NamedTuple):
    """A sentence and its colour."""

    text: str
    style: str


def alerts(scene: Scene, now: float) -> list[Alert]:
    """All there are."""
    found = [*_of_database(scene, now), *_of_fleet(scene, now), *_of_tasks(scene, now)]
    return sorted(found, key=lambda one: one.style != BAD)


def _of_database(scene: Scene, now: float) -> Iterator[Alert]:
    if scene.trouble:
        since = cells.seconds(now - scene.trouble_since)
        yield Alert(f"no answer from the database for {since}: {cells.text(scene.trouble)}", BAD)
    elif scene.snapshot is not None:
        age = now - scene.snapshot.counted_at
        if age > scene.state.interval + STALE_SECONDS and not scene.state.paused:
            yield Alert(f"tasks were counted {cells.seconds(age)} ago: counting takes long", WARN)
    away_since = scene.fleet["away_since"] if scene.fleet else None
    if away_since is not None and not scene.trouble and now - away_since > 1.0:
        yield Alert(f"leases have not been renewed for {cells.seconds(now - away_since)}", BAD)


def _of_fleet(scene: Scene, now: float) -> Iterator[Alert]:
    if reason := scene.stopping():
        yield Alert(
            f"stopping ({cells.text(reason)}): {plural(scene.running(), 'task')} in hand", WARN
        )
    death = scene.fleet["last_death"] if scene.fleet else None
    if death is not None and now - death[0] < DEATH_SECONDS:
        ago = cells.seconds(now - death[0])
        more = scene.fleet["deaths"] if scene.fleet else 1
        also = f" ({more} since the start)" if more > 1 else ""
        yield Alert(f"{cells.text(death[1])}, {ago} ago{also}", WARN)
    for one in scene.workers(now):
        if is_near_limit(one):
            ran, limit = cells.seconds(one["run_seconds"]), cells.seconds(one["limit_seconds"])
            what = f"task {one['task']} ({cells.text(one['type'])})"
            yield Alert(f"worker {one['slot']}: {what} has run {ran} of {limit}", WARN)


def _of_tasks(scene: Scene, now: float) -> Iterator[Alert]:
    if scene.snapshot is None:
        return
    status = scene.snapshot.status
    if not scene.workers(now):
        waiting = f": {plural(status['ready'], 'task')} waiting" if status["ready"] else ""
        yield Alert(f"no worker is alive{waiting}", BAD if status["ready"] else WARN)
    for one in scene.hosts():
        if one["state"] == "lost":
            since = cells.seconds(one["silent_seconds"])
            name = cells.text(one["host"])
            yield Alert(f"a host is lost, its leases not renewed for {since}: {name}", BAD)
    if status["leases_expired"]:
        who = plural(status["leases_expired"], "worker")
        yield Alert(f"the lease of {who} has expired: its process or host is gone", BAD)
    for still in standstills(status):
        yield Alert(cells.text(still.text), WARN)
