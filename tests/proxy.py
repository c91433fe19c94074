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


def let_pass(direction: str, data: bytes) -> str:
    """The rule of an honest wire."""
    return "pass"


class Proxy:
    """Listens on a socket of its own; `rule` looks at everything that passes, one chunk at a time.

    `cut` closes both sides without passing the chunk on, `drop` swallows it and stays open.
    """

    def __init__(self, target: str, directory: Path) -> None:
        self._target = target
        self.rule: Rule = let_pass
        self.cuts = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / ".s.PGSQL.5432"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

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
                continue
            self._pairs.append((client, server))
            for source, sink, way in ((client, server, ">"), (server, client, "<")):
                args = (source, sink, way)
                threading.Thread(target=self._forward, args=args, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, direction: str) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                match self.rule(direction, data):
                    case "pass":
                        sink.sendall(data)
                    case "cut":
                        self.cuts += 1
                        break
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Cut everything."""
        self._listener.close()
        for pair in self._pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()


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
    """Cuts at the first chunk from the server that holds these bytes, once it is armed."""

    def __init__(self, needle: bytes, times: int = 1) -> None:
        self.needle = needle
        self.left = times
        self._lock = threading.Lock()

    def __call__(self, direction: str, data: bytes) -> str:
        with self._lock:
            if direction == "<" and self.left and self.needle in data:
                self.left -= 1
                return "cut"
        return "pass"
