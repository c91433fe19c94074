"""A small proxy between a fleet and its server that cuts, freezes, or lets pass."""

import re
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

Rule = Callable[[str, bytes], str]  # (direction `>` or `<`, data) -> `pass`, `cut` or `drop`
COMMIT_TAG = b"C\x00\x00\x00\x0bCOMMIT\x00"  # how the server says that it has committed


def let_pass(direction: str, data: bytes) -> str:
    """The rule of an honest wire."""
    return "pass"


class Pair:
    """One connection: the client's end and the server's."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self._forwarders = 2

    def shut(self) -> None:
        """End both sides."""
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def release(self) -> bool:
        """One forwarder is through; the last one closes."""
        self._forwarders -= 1
        if self._forwarders == 0:
            self.client.close()
            self.server.close()
        return self._forwarders == 0


class Proxy:
    """Listens on a socket of its own; `rule` looks at everything that passes, one chunk at a time.

    `cut` closes both sides without passing the chunk on, `drop` swallows it and stays open.
    """

    def __init__(self, target: str, directory: Path) -> None:
        self._target = target
        self.rule: Rule = let_pass
        self.cuts = 0
        self._pairs: set[Pair] = set()
        self._lock = threading.Lock()
        self._flows = threading.Event()
        self._flows.set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / ".s.PGSQL.5432"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    # -- for those who disturb ------------------------------------------------------------------------

    def freeze(self) -> None:
        """Let nothing pass from now on; what is sent meanwhile arrives after `thaw`."""
        self._flows.clear()

    def thaw(self) -> None:
        """Let everything pass again."""
        self._flows.set()

    def cut(self, choose: Callable[[list[Pair]], Pair]) -> bool:
        """End one connection, chosen among those there are; False when there is none."""
        with self._lock:
            pairs = list(self._pairs)
        if pairs:
            choose(pairs).shut()
        return bool(pairs)

    def close(self) -> None:
        """Cut everything."""
        # Closing alone would not wake the thread that waits in accept().
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._flows.set()
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            pair.shut()

    # -- the wire -------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._target)
            except OSError:
                client.close()
                server.close()
                continue
            pair = Pair(client, server)
            with self._lock:
                self._pairs.add(pair)
            for source, sink, way in ((client, server, ">"), (server, client, "<")):
                args = (pair, source, sink, way)
                threading.Thread(target=self._forward, args=args, daemon=True).start()

    def _forward(
        self, pair: Pair, source: socket.socket, sink: socket.socket, direction: str
    ) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._flows.wait()
                match self.rule(direction, data):
                    case "pass":
                        sink.sendall(data)
                    case "cut":
                        self.cuts += 1
                        break
        pair.shut()
        with self._lock:
            if pair.release():
                self._pairs.discard(pair)


@contextmanager
def proxied(url: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy before the server of this URL, and the URL that leads through it."""
    host = parse_qs(urlsplit(url).query)["host"][0]
    with tempfile.TemporaryDirectory(prefix="runner-proxy-", dir="/tmp") as directory:
        proxy = Proxy(f"{host}/.s.PGSQL.5432", Path(directory))
        try:
            yield proxy, re.sub(r"host=[^&]*", f"host={quote(directory, safe='')}", url)
        finally:
            proxy.close()


class CutOnce:
    """Cuts at the first chunk in a direction that holds these bytes, once it is armed."""

    def __init__(self, needle: bytes, times: int = 1, direction: str = "<") -> None:
        self.needle = needle
        self.left = times
        self.direction = direction
        self._lock = threading.Lock()

    def __call__(self, direction: str, data: bytes) -> str:
        with self._lock:
            if direction == self.direction and self.left and self.needle in data:
                self.left -= 1
                return "cut"
        return "pass"
