"""PgBouncer as the example has it, before a server, with fewer server connections than clients."""

import contextlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg

from runner.embedded.account import Account, account_for

PORT = 5432  # in a directory of its own, so that everything is as before a server
EXAMPLE = Path(__file__).parent.parent / "deploy" / "pgbouncer" / "pgbouncer.ini"
# More lines of the section [pgbouncer], with which the example ends: the last of two counts. A second
# section of that name would put everything back to its default that it does not say itself.
OURS = """
unix_socket_dir = {home}
listen_addr =
listen_port = {own_port}
auth_type = trust
auth_file = {home}/users
default_pool_size = {size}
max_client_conn = 200
logfile = {home}/log
admin_users = postgres
{more}
[databases]
* = host={target} port={port}
"""


class PoolerTrouble(RuntimeError):
    """PgBouncer did not start."""


def lacking() -> str | None:
    """Why there can be no pooler, as a reason to skip; None when there can."""
    return None if shutil.which("pgbouncer") else "pgbouncer is not installed"


@dataclass
class Pooler:
    """A running PgBouncer, and how to get through it."""

    home: Path
    target: str  # the URL of a database that it leads to
    process: subprocess.Popen[bytes]

    def url(self, target: str | None = None) -> str:
        """The same database, through the pooler."""
        through = re.sub(r"host=[^&]*", f"host={self.home}", target or self.target)
        through = re.sub(r"port=\d+", f"port={PORT}", through)
        return re.sub(r"&?options=[^&]*", "", through)  # that is what it refuses

    def settings(self) -> dict[str, str]:
        """What is in force, by name."""
        admin = urlsplit(self.url())._replace(path="/pgbouncer").geturl()
        with psycopg.connect(admin, autocommit=True) as conn:
            return {row[0]: row[1] for row in psycopg.ClientCursor(conn).execute("show config")}

    def log(self) -> str:
        return (self.home / "log").read_text(errors="replace")


@contextlib.contextmanager
def pooler(url: str, *, size: int = 3, ignore_options: bool = False) -> Iterator[Pooler]:
    """PgBouncer before the server of this URL; `ignore_options`: it drops startup options silently
    instead of refusing them."""
    query = parse_qs(urlsplit(url).query)
    target = query["host"][0]
    account = account_for(Path(target))
    home = Path(tempfile.mkdtemp(prefix="runner-pooler-", dir="/tmp"))
    process = None
    try:
        account.own(home)
        more = "ignore_startup_parameters = options" if ignore_options else ""
        port = query.get("port", ["5432"])[0]
        values = {"target": target, "port": port, "home": home, "own_port": PORT, "size": size}
        config = EXAMPLE.read_text() + OURS.format(**values, more=more)
        for name, text in (("config", config), ("users", USERS)):
            (home / name).write_text(text)
            account.own(home / name)
        process = _start(home, account)
        made = Pooler(home, url, process)
        _wait(made)
        yield made
    finally:
        if process is not None:
            process.kill()
            process.wait()
        shutil.rmtree(home, ignore_errors=True)


USERS = '"postgres" ""\n'


def _start(home: Path, account: Account) -> subprocess.Popen[bytes]:
    """As the server's user: PgBouncer refuses root, and the server's socket is that user's alone."""
    command = ["pgbouncer", "-q", str(home / "config")]
    if not account.is_caller:
        ids = (f"--reuid={account.uid}", f"--regid={account.gid}")
        command = ["setpriv", *ids, "--clear-groups", *command]
    return subprocess.Popen(
        command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _wait(made: Pooler) -> None:
    end = time.monotonic() + 10
    while True:
        try:
            psycopg.connect(made.url(), connect_timeout=2).close()
            return
        except psycopg.OperationalError as error:
            if made.process.poll() is not None or time.monotonic() > end:
                raise PoolerTrouble(made.log() if (made.home / "log").exists() else "") from error
        time.sleep(0.02)
