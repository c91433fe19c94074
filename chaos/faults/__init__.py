"""The faults. Each is a generator: it strikes, yields how long it lasts, and heals.

Faults overlap freely; only what disturbs a fleet or the server as a whole waits its turn there. `Missed`
means that there is nobody to meet just now, and is not counted.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from chaos.faults import fleets, servers, sessions
from chaos.faults.fleets import CONTROL_LEASES
from chaos.faults.waiting import Waits
from chaos.stage import Stage

__all__ = ["CONTROL", "CONTROL_LEASES", "FAULTS", "Fault", "Waits"]


@dataclass(frozen=True)
class Fault:
    """What it does, how often a minute it strikes in a soak, and what the stage must have for it."""

    strike: Callable[[Stage, random.Random], Waits]
    per_minute: float
    needs: str = ""


FAULTS = {
    "kill_worker": Fault(fleets.kill_worker, 240),
    "kill_helper": Fault(fleets.kill_helper, 6),
    "kill_parent": Fault(fleets.kill_parent, 4),
    "stop_runner": Fault(fleets.stop_runner, 1),
    "freeze_parent": Fault(fleets.freeze_parent, 1),
    "freeze_worker": Fault(fleets.freeze_worker, 5),
    "freeze_both": Fault(fleets.freeze_both, 0.7),
    "starve_memory": Fault(fleets.starve_memory, 4),
    "terminate_backend": Fault(sessions.terminate_backend, 130),
    "freeze_backend": Fault(sessions.freeze_backend, 2),
    "cut_commit_reply": Fault(sessions.cut_commit_reply, 25),
    "cut_commit": Fault(sessions.cut_commit, 15),
    "cut_socket": Fault(sessions.cut_socket, 10),
    "black_hole": Fault(sessions.black_hole, 0.5),
    "cut_network": Fault(sessions.cut_network, 0.7, "network"),
    "lose_packets": Fault(sessions.lose_packets, 1, "network"),
    "reset_connections": Fault(sessions.reset_connections, 4, "network"),
    "use_up_connections": Fault(sessions.use_up_connections, 2),
    "restart_database": Fault(servers.restart_database, 3),
    "fill_disk": Fault(servers.fill_disk, 2, "disk"),
    "jump_clock": Fault(servers.jump_clock, 3, "clock"),
}
# For the control arm, one at a time. Frequent kills would hide what these show.
CONTROL = {
    "freeze_busy_fleet": Fault(partial(fleets.freeze_busy, whole=True), 0),
    "freeze_busy_parent": Fault(partial(fleets.freeze_busy, whole=False), 0),
}
