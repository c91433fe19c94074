"""examples/outbox: a sign-up over HTTP, a fleet, and a mail server that gets what was committed."""

import re
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.docs import typed
from tests.examples.playing import Play

pytestmark = [pytest.mark.process, pytest.mark.db]
QUICK = "--backoff 200ms:1s --poll 1s"


class Shop(Play):
    """The example with ports of this test's own; started line by line from its README."""

    def __init__(self, directory: Path, url: str, stack: ExitStack) -> None:
        super().__init__("outbox", directory, url)
        self.stack = stack
        self.lines = typed(self.block("python web.py init"))
        self.ports = {"2525": free_port(), "8080": free_port()}
        self.mails = self.directory / "stderr"

    def line(self, containing: str) -> str:
        (found,) = [line for line in self.lines if containing in line]
        return re.sub(r"2525|8080", lambda port: self.ports[port[0]], found.removesuffix(" &"))

    def type(self, containing: str) -> None:
        self.terminal.type(self.line(containing))

    def begin(self, containing: str, more: str = "") -> None:
        # `exec` takes no assignments in front of a command.
        line = re.sub(r"^(?=\w+=)", "env ", self.line(containing))
        self.stack.enter_context(self.terminal.begun(f"{line} {more}"))

    def serve(self) -> None:
        self.type("runner init")
        self.type("web.py init")
        self.begin("web.py serve")
        self.wait(lambda: answers(self.ports["8080"]), "the web server listens")

    def sign_up(self, email: str) -> int:
        """What curl would do; the status."""
        found = re.fullmatch(r"curl -d email=\S+ (\S+)", self.line("curl"))
        assert found is not None
        data = urllib.parse.urlencode({"email": email}).encode()
        try:
            with urllib.request.urlopen(found[1], data, timeout=20) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def delivered(self) -> list[str]:
        """The sink's lines; a second one of the same mail begins with `again`."""
        text = self.mails.read_text() if self.mails.exists() else ""
        return re.findall(r"^(?:again )?<outbox-\d+@example.com> to .*$", text, re.MULTILINE)


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def answers(port: str) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", int(port)), timeout=1):
            return True
    except OSError:
        return False


@pytest.fixture
def shop(fresh: str, tmp_path: Path) -> Iterator[Shop]:
    with ExitStack() as stack:
        yield Shop(tmp_path, fresh, stack)


def test_a_mail_for_each_account_and_none_besides(shop: Shop) -> None:
    shop.serve()
    shop.begin("sink.py")
    shop.begin("runner start", QUICK)
    assert shop.sign_up("ada@example.com") == 201
    assert shop.sign_up("ada@example.com") == 409  # its mail and task were written, and undone
    assert shop.sign_up("bob@example.com") == 201
    shop.wait(lambda: not shop.states(), "everything is sent")
    assert sorted(line.split(" to ")[1] for line in shop.delivered()) == [
        "ada@example.com",
        "bob@example.com",
    ]
    query = "select count(*) from account a join outbox o on o.recipient = a.email"
    assert shop.rows(f"{query} where sent_at is not null") == [(2,)]
    assert shop.rows("select count(*) from outbox") == [(2,)]


def test_a_mail_server_that_is_away_and_then_loses_an_answer(shop: Shop) -> None:
    shop.serve()
    shop.begin("runner start", QUICK)
    assert shop.sign_up("cyd@example.com") == 201
    retried = "select 1 from runner.task where attempt > 0 and cause = 'ConnectionRefusedError'"
    shop.wait(lambda: shop.rows(retried), "it has been refused")
    shop.begin("sink.py", "--lose-first")
    shop.wait(lambda: not shop.states(), "it is sent")
    mail, repeat = shop.delivered()
    assert repeat == f"again {mail}"
    assert shop.rows("select count(*) from outbox where sent_at is not null") == [(1,)]
