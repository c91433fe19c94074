"""Several hosts on one machine: network namespaces with addresses of their own, joined by a switch.

Everything is in namespaces, the switch too, so the machine's own network is not touched; a namespace
takes its interfaces and its rules along when it goes. Programs on a host see the file system and the
process table of the machine. Needs root, `ip` and `bridge` (iproute2); loss and resets need iptables.
"""

import contextlib
import ctypes
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

NETWORK = "10.219.7"
NAMED = ("unshare", "--uts", "sh", "-c", 'echo "$0" >/proc/sys/kernel/hostname && exec "$@"')
FIRST_ADDRESS = 10
CLONE_NEWNET = 0x40000000


class HostTrouble(RuntimeError):
    """A program of the network failed."""


def lacking() -> str | None:
    """What is missing for hosts of their own, as a reason to skip; None when they can be made."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in ("ip", "bridge", "unshare") if shutil.which(name) is None]
    if missing:
        return f"{' and '.join(missing)} (iproute2, util-linux) is not installed"
    name = f"runner-probe-{secrets.token_hex(3)}"
    try:
        _run("ip", "netns", "add", name)
        _run("ip", "-n", name, "link", "add", "probe0", "type", "veth", "peer", "probe1")
    except HostTrouble as error:
        return str(error)
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return None


def lacking_iptables() -> str | None:
    """Why packets cannot be lost or refused on purpose; None when they can."""
    return lacking() or (None if shutil.which("iptables") else "iptables is not installed")


@dataclass
class Host:
    """A namespace with one interface, whose other end is a port of the switch."""

    name: str
    namespace: str
    switch: str
    port: str
    address: str
    connected: bool = True

    def command(self, *command: str) -> list[str]:
        """The same command, run on this host, which has a name of its own, too. The process that is
        started becomes the command: its pid is the command's."""
        return ["ip", "netns", "exec", self.namespace, *NAMED, self.name, *command]

    def enter(self) -> None:
        """From now on this thread, and no other, has the network of this host."""
        namespace = os.open(f"/run/netns/{self.namespace}", os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET):
                raise HostTrouble(f"setns: {os.strerror(ctypes.get_errno())}")
        finally:
            os.close(namespace)

    def cut(self) -> None:
        """Nothing goes in or out any more, and nobody is told: not even the link goes down."""
        self._port_state(0)
        self.connected = False

    def heal(self) -> None:
        """The network is back."""
        self._port_state(3)
        self.connected = True

    def lose(self, share: float) -> None:
        """Lose this share of incoming packets; 0: none any more."""
        _run(*self._inside("iptables", "-F", "INPUT"))
        if share:
            rule = (
                "-m",
                "statistic",
                "--mode",
                "random",
                "--probability",
                str(share),
                "-j",
                "DROP",
            )
            _run(*self._inside("iptables", "-A", "INPUT", *rule))

    def refuse(self, port: int, on: bool) -> None:
        """While on, whatever is sent to this port is answered by a reset."""
        rule = ("-p", "tcp", "--dport", str(port), "-j", "REJECT", "--reject-with", "tcp-reset")
        _run(*self._inside("iptables", "-A" if on else "-D", "OUTPUT", *rule))

    def _inside(self, *command: str) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *command]

    def _port_state(self, state: int) -> None:
        inside = ("ip", "netns", "exec", self.switch)
        _run(*inside, "bridge", "link", "set", "dev", self.port, "state", str(state))


class Network:
    """A switch, and the hosts that were plugged into it."""

    def __init__(self) -> None:
        self._token = secrets.token_hex(3)
        self.hosts: list[Host] = []
        self.switch = f"runner-{self._token}-switch"
        _run("ip", "netns", "add", self.switch)
        _run("ip", "-n", self.switch, "link", "add", "switch", "type", "bridge")
        _run("ip", "-n", self.switch, "link", "set", "switch", "up")

    def add(self, name: str) -> Host:
        """A new host, up and plugged in."""
        number = len(self.hosts)
        namespace, port = f"runner-{self._token}-{name}", f"port{number}"
        address = f"{NETWORK}.{FIRST_ADDRESS + number}"
        host = Host(name, namespace, self.switch, port, address)
        _run("ip", "netns", "add", namespace)
        self.hosts.append(host)
        link = ("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _run("ip", "-n", self.switch, *link)
        _run("ip", "-n", self.switch, "link", "set", port, "master", "switch", "up")
        _run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run("ip", "-n", namespace, "link", "set", device, "up")
        return host

    def close(self) -> None:
        """Take it all down. Processes on a host must be gone: they would keep its namespace."""
        for namespace in (*(host.namespace for host in self.hosts), self.switch):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)


@contextlib.contextmanager
def network() -> Iterator[Network]:
    """A network that is gone afterwards."""
    net = Network()
    try:
        yield net
    finally:
        net.close()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        raise HostTrouble(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
