"""The workloads, each a function that is given the place and the sizes and returns an Outcome."""

from collections.abc import Callable

from bench.report import Outcome
from bench.sizes import Sizes
from bench.stage import Stage

from . import backlog, enqueueing, idle, latency, memory, pinned, processes, startup, throughput

Workload = Callable[[Stage, Sizes], Outcome]

ALL: dict[str, Workload] = {
    "noop": throughput.noop,
    "effect": throughput.effect,
    "effect-grouped": throughput.effect_grouped,
    "latency": latency.latency,
    "backlog": backlog.backlog,
    "pinned": pinned.pinned,
    "enqueue": enqueueing.enqueue,
    "idle": idle.idle,
    "memory": memory.memory,
    "startup": startup.startup,
    "procs": processes.processes,
}
