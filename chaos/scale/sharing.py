"""Every host gets its share, also while one of them is cut off again and again."""

import time

from chaos.scale.ground import Found, Ground

LIMIT = 0.25  # a share may be so far from even


def sharing(
    ground: Ground, tasks: int, *, nap: float, cuts: list[float], limit: float = LIMIT
) -> Found:
    """`nap`: seconds a task takes. A cut, so many seconds long, comes each time that another part of
    the tasks is done; all meet the first host."""
    begun = time.monotonic()
    first = ground.add("slow", tasks, seconds=nap)[0]
    victim = ground.runners[0].host
    assert victim is not None
    for number, seconds in enumerate(cuts, 1):
        mark = tasks * (1 - number / (len(cuts) + 1.5))
        ground.until(lambda mark=mark: ground.left() <= mark, "a part done", 900)  # type: ignore[misc]
        victim.cut()
        time.sleep(seconds)
        victim.heal()
    ground.until(lambda: ground.left() == 0, "all done", 900)
    shares = ground.shares(first)
    even = tasks / len(shares)
    off = {name: count / even - 1 for name, count in shares.items()}
    wrong = ground.faults()
    wrong += [f"{name} is {part:+.0%} off" for name, part in off.items() if abs(part) > limit]
    said = (
        f"{tasks} tasks on {len(shares)} hosts x {ground.procs} workers in"
        f" {time.monotonic() - begun:.0f} s, {ground.runners[0].name} cut off {len(cuts)} times"
        f" for {', '.join(f'{one:g}' for one in cuts)} s: {sum(shares.values())} effects;"
        f" shares {min(off.values()):+.1%} to {max(off.values()):+.1%} from even"
        f" ({' '.join(f'{name}={count}' for name, count in shares.items())})"
    )
    return Found(said, wrong)
