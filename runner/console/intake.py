"""What becomes of the scene when something is heard. Pure: times are local."""

from dataclasses import replace

from .scene import Scene
from .snapshot import Record, counters, snapshot_of


def take_answer(scene: Scene, answer: Record, now: float) -> bool:
    """What the database said, or why it does not; whether it should be looked at anew at once."""
    if "trouble" in answer and not answer.get("kept"):
        take_trouble(scene, answer["trouble"], now)
    elif "trouble" in answer:  # what was asked failed; the connection is well
        scene.state = scene.state.noting(answer["trouble"], now)
    else:
        scene.trouble = None
        _take(scene, answer, now)
    return "said" in answer


def _take(scene: Scene, answer: Record, now: float) -> None:
    if "said" in answer:
        scene.state = scene.state.noting(answer["said"], now)
    elif "details" in answer:
        scene.state = replace(scene.state, details=answer["details"], scroll=0)
    elif "look" in answer and not scene.state.paused:
        scene.snapshot = snapshot_of(answer["look"])
        scene.database = answer["look"]["where"]
        if not all_ours(scene):
            scene.meter.add(scene.snapshot.taken_at, counters(scene.snapshot), in_steps=True)


def take_trouble(scene: Scene, why: str, since: float) -> None:
    """The database does not answer."""
    if not scene.trouble:
        scene.trouble_since = since
    scene.trouble = why


def take_feed(scene: Scene, told: Record) -> None:
    """What the parent says."""
    if scene.state.paused:
        return
    scene.fleet = told
    samples = scene.meter.samples
    least = min(1.0, scene.state.interval)
    if all_ours(scene) and (not samples or told["at"] - samples[-1].at >= least):
        tally = told["tally"]
        failed = tally.get("retried", 0) + tally.get("dead", 0)
        scene.meter.add(told["at"], {"fleet": (tally.get("ok", 0), failed)})


def all_ours(scene: Scene) -> bool:
    """Whether the parent's counts are everybody's."""
    if scene.fleet is None:
        return False
    pids = {one["pid"] for one in scene.fleet["workers"]}
    seen = scene.snapshot.status["workers"] if scene.snapshot else ()
    living = [one for one in seen if one["state"] != "expired"]
    return all(one["host"] == scene.host and one["pid"] in pids for one in living)
