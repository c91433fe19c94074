"""Hosts on networks of their own: what is cut off, refused, and named."""

import os
import random
import subprocess

import pytest

from chaos import hosts
from chaos.cluster import cluster
from chaos.partition import FREED_SECONDS, partition
from tests import servers
from tests.process.test_outages import END, LET_IN

reason = hosts.lacking()
pytestmark = [pytest.mark.process, pytest.mark.skipif(reason is not None, reason=str(reason))]
SERVE = "import socket; s = socket.create_server(('', 5432)); s.accept(); print('met', flush=True)"
MEET = "import socket, sys; socket.create_connection((sys.argv[1], 5432), timeout=1)"


def meets(one: hosts.Host, other: hosts.Host) -> bool:
    """Whether a connection from one host to another comes about."""
    with subprocess.Popen(other.command("python3", "-c", SERVE)) as server:
        listening = other.command("ss", "-Hltn", "sport = :5432")

        def ready() -> bool:
            return bool(subprocess.run(listening, capture_output=True, check=True).stdout)

        servers.wait_until(ready)
        client = one.command("python3", "-c", MEET, other.address)
        met = subprocess.run(client, capture_output=True, check=False).returncode == 0
        server.kill()
    return met


def test_a_network_of_its_own() -> None:
    """Cut, healed, and gone without a trace; each host has a name."""
    with hosts.network() as network:
        one, other = network.add("one"), network.add("other")
        named = subprocess.run(one.command("uname", "-n"), capture_output=True, check=True)
        assert named.stdout.decode().strip() == "one"
        assert meets(one, other)
        other.cut()
        assert not meets(one, other)
        other.heal()
        assert meets(one, other)
        if hosts.lacking_iptables() is None:
            one.refuse(5432, on=True)
            assert not meets(one, other)
            one.refuse(5432, on=False)
            assert meets(one, other)
    left = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    # By name: another run on this machine has namespaces of its own.
    assert not {one.namespace, other.namespace, network.switch} & set(left.split())


@pytest.mark.timeout(600)
def test_a_host_is_cut_off_again_and_again() -> None:
    """No overlap, everything once, and what the cut side had locked is free before its lease ends."""
    full = bool(os.environ.get("RUNNER_TEST_FULL"))
    rng = random.Random(5)
    leases = [rng.uniform(0.5, 3) for _ in range(20)] if full else [0.5, 0.9]
    result = partition(leases, 5, count=3 if full else 2, binaries=servers.chosen_binaries())
    judged = result.judgement
    assert judged.violations == 0, judged
    assert judged.completed == judged.acknowledged > len(leases)
    assert judged.left == judged.dead == 0
    assert result.freed_seconds
    # A second for a machine that is busy; without the server's own watch it is the lease, or more.
    assert max(result.freed_seconds) < FREED_SECONDS + 1


def test_a_cut_is_told_where_no_worker_is_left_to_renew() -> None:
    """The renewer is asked nothing, and no reset comes: the kernel finds the link dead."""
    binaries = servers.chosen_binaries()
    with cluster(1, ("--procs", "1", "-v"), binaries=binaries) as made, made.connect() as conn:
        made.start()
        (runner,) = made.runners
        log = runner.directory / f"{runner.name}.log"
        there = "select from runner.worker where role = 'worker'"
        servers.wait_until(lambda: conn.execute(there).rowcount, 20, "registered")
        conn.execute(LET_IN, [False])
        assert conn.execute(END, ["runner worker %"]).rowcount == 1
        conn.execute("insert into runner.task (task_type) values ('slow')")
        servers.wait_until(lambda: log.read_text().count("cannot connect") >= 3, 20)
        assert runner.host is not None
        runner.host.cut()
        servers.wait_until(lambda: "database is away" in log.read_text(), 20)
        runner.host.heal()
        conn.execute(LET_IN, [True])
        servers.wait_until(lambda: "database is back" in log.read_text(), 20)
