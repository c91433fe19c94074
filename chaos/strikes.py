"""What befalls the primary of three Patroni nodes, and how its host comes back."""

import signal
import time
from collections.abc import Mapping

from chaos import processes
from chaos.patroni import Node

STRIKES = ("postgres", "patroni", "network")
KINDS = (*STRIKES, "lagging", "switchover")
LAG_SECONDS = 1.0
SENDERS = "select array_agg(pid) from pg_stat_replication"


def strike(old: Node, kind: str) -> None:
    """`lagging`: its PostgreSQL is killed when the standbys are a second behind."""
    match kind:
        case "postgres":
            old.kill_postgres()
        case "patroni":
            old.kill_patroni()
        case "network":
            old.host.cut()
        case "lagging":
            _kill_behind(old)
        case "switchover":
            old.switch_over()


def _kill_behind(old: Node) -> None:
    """What sends WAL stands still first, and never gets to send what was committed since."""
    senders = old.ask(SENDERS) or []
    for pid in senders:
        processes.send(pid, signal.SIGSTOP)
    time.sleep(LAG_SECONDS)
    old.kill_postgres()
    for pid in senders:  # one that stands still does not see that its postmaster is gone
        processes.send(pid, signal.SIGKILL)


def come_back(old: Node, peers: Mapping[str, str], watchdog: bool) -> None:
    """The network is back, and a watchdog has reset the host. Without one Patroni 3.0 was seen to lead
    again with what it knew before the cut, and to undo what the new primary had done."""
    if watchdog:
        old.kill_patroni()
        old.kill_postgres()
    old.host.heal()
    if watchdog:
        old.start_patroni(peers)
