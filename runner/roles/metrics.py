"""The metrics role: serves Prometheus text over HTTP, or writes it to a file, for a whole fleet.

Who reads slowly holds up this process for two seconds, and nobody else.
"""

import contextlib
import select
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psycopg

from ..clock import now
from ..config import ALIVE_SECONDS, FleetConfig
from ..files import write_whole
from ..logpipe import LogPipe
from ..operating import prometheus
from ..seat import Ends, Seat
from ..store import figures
from ..store.connect import connect
from ..wire import EventWriter, Kind

FRESH_SECONDS = 1.0  # a text as young as this is given out again
FILE_SECONDS = 15.0
CLIENT_SECONDS = 2.0
QUERY_SECONDS = 10.0


class Metrics:
    """One connection, one port or file or both."""

    def __init__(self, config: FleetConfig, seat: Seat, ends: Ends) -> None:
        self.config = config
        self.control = ends.control
        self.events = EventWriter(ends.events, seat.incarnation)
        self.log = LogPipe(ends.log, config.log_level, role="metrics")
        self.server = self._server(ends.extra.get("listening"))
        self.file = Path(config.metrics_file) if config.metrics_file else None
        self.conn: psycopg.Connection[object] | None = None
        self.write_at = 0.0
        self.trouble = ""
        self._text = ""
        self._taken_at = float("-inf")

    def run(self) -> int:
        """Serve until the parent says stop, or is gone; the file is written once more then."""
        self.events.send(Kind.HELLO)
        while not self.wait():
            self.events.send(Kind.ALIVE)
            if self.file is not None and now() >= self.write_at:
                self.write(self.file)
        if self.file is not None:
            self._taken_at = float("-inf")
            self.write(self.file)
        return 0

    def wait(self) -> bool:
        """Sleep until somebody asks or the file is due; True when the parent says or did something:
        it sends nothing but a stop."""
        seconds = ALIVE_SECONDS
        if self.file is not None:
            seconds = min(seconds, max(0.0, self.write_at - now()))
        fds: list[int] = [self.control, *([self.server.fileno()] if self.server else [])]
        ready, _, _ = select.select(fds, [], [], seconds)
        if self.control in ready:
            return True
        if ready and self.server is not None:
            self.server.handle_request()
        return False

    # -- the text ---------------------------------------------------------------------------------

    def text(self) -> str | None:
        """The figures, at most a second old; None while the database does not answer."""
        at = now()
        if at - self._taken_at < FRESH_SECONDS:
            return self._text
        try:
            if self.conn is None:
                self.conn = connect(self.config.dsn, "metrics", statement_seconds=QUERY_SECONDS)
            self._text, self._taken_at = figures.metrics(self.conn), at
        except psycopg.Error:
            # The renewer tells of outages.
            if self.conn is not None:
                self.conn.close()
            self.conn = None
            return None
        return self._text

    def write(self, file: Path) -> None:
        """Put the figures into the file; while there are none, that."""
        self.write_at = now() + FILE_SECONDS
        try:
            write_whole(file, self.text() or prometheus.nothing())
            self.trouble = ""
        except OSError as error:
            if str(error) != self.trouble:
                self.trouble = str(error)
                self.log.error("metrics_file", f"cannot write {file}: {error.strerror}")

    # -- HTTP -------------------------------------------------------------------------------------

    def _server(self, fd: int | None) -> HTTPServer | None:
        if fd is None:
            return None
        listening = socket.socket(fileno=fd)
        server = HTTPServer(("", 0), self._handler(), bind_and_activate=False)
        server.socket.close()
        server.socket = listening
        server.timeout = 0.1
        return server

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        role = self

        class Handler(BaseHTTPRequestHandler):
            timeout = CLIENT_SECONDS

            def do_GET(self) -> None:
                """`/metrics`, and `/health` with 200 or 503."""
                path = self.path.partition("?")[0]
                text = role.text() if path in ("/metrics", "/health") else ""
                if path == "/metrics":
                    self._answer(200, text or prometheus.nothing())
                elif path == "/health":
                    self._answer(*((200, "ok\n") if text else (503, "no database\n")))
                else:
                    self._answer(404, "there are /metrics and /health\n")

            def _answer(self, status: int, text: str) -> None:
                body = text.encode()
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Type", prometheus.CONTENT_TYPE)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Scrapes are not news."""

        return Handler
