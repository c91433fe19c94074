"""Connections: how each is opened, and what its errors mean."""

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ..clock import now
from ..config import CONNECT_SECONDS, STATEMENT_SECONDS
from ..errors import ConfigError, DatabaseUnreachable, RunnerError
from ..text import redact
from .bounded import NOTHING_MORE, Bounded
from .sql import query

OLDEST_SERVER = 140000
CONNECT_RETRY_SECONDS = 0.5
SILENT_SECONDS = 5.0  # who waits for longer says so: most verbs give up by then
TCP_MILLISECONDS = 5000  # unanswered data ends a connection after so long

_URL = re.compile(r"^postgres(?:ql)?(?:\+\w+)?://")
_ANY_URL = re.compile(r"^[a-z][a-z0-9+.-]*://")
_HOSTS = re.compile(r"[\w.:,-]*|[/@][^;=]*")  # names and addresses, or a directory of sockets
_PORTS = re.compile(r"[0-9,]*")

Connection = psycopg.Connection[Any]
_Connection = TypeVar("_Connection", bound=Bounded)
_Answer = TypeVar("_Answer")
Waiting = Callable[[RunnerError, float], None]

# Classes and codes that speak of the connection or the server, not of the statement.
_INFRASTRUCTURE = ("08", "57P0", "53300", "25006")
_REFUSED = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry"
    r'|role ".*" does not exist|database ".*" does not exist|invalid .*(option|value|number)'
    r"|permission denied|is not permitted to log in|definition of service"
    r"|invalid command-line argument|requires a value|unrecognized configuration parameter"
)


def _nothing(failure: RunnerError, seconds_left: float) -> None:
    pass


def parse(url: str) -> dict[str, Any]:
    """The parts of a connection string or URL; ConfigError, which never repeats it, if unreadable."""
    if _ANY_URL.match(url) and not _URL.match(url):
        raise ConfigError(
            "this is no PostgreSQL URL: it must begin with postgresql://",
            hint="or give key=value pairs: host=… port=… user=… dbname=…",
        )
    try:
        parts = conninfo_to_dict(_URL.sub("postgresql://", url))
    except (psycopg.ProgrammingError, UnicodeError):
        parts = None  # libpq's own message repeats pieces of the URL, the password among them
    if parts is None or _misread(url, parts):
        raise ConfigError(
            "the database URL does not parse",
            hint="percent-encode @ : / ? # and % in user and password",
        )
    return dict(parts)


def _misread(url: str, parts: Mapping[str, Any]) -> bool:
    """Whether libpq may have taken a piece of the password for a host, port, user or name.

    It accepts nearly everything, and those parts are shown.
    """
    shown = [str(parts.get(name) or "") for name in ("host", "hostaddr", "port", "user", "dbname")]
    host, _, port, user, name = shown
    if not _HOSTS.fullmatch(host) or not _PORTS.fullmatch(port) or set(user + name) & set(";="):
        return True
    if (found := _URL.match(url)) is None:
        return False
    body = url[found.end() :]
    credentials, at, _ = body.partition("/")[0].rpartition("@")
    rest = body[len(credentials) + len(at) :].partition("?")[0]
    return "@" in credentials or "@" in rest or rest.count("/") > 1


def password(url: str) -> str | None:
    """The password of a URL, to be shown nowhere; None without one, or where `describe` shows that very
    word: hiding it would only spoil what is said."""
    parts = parse(url)
    secret = str(parts.get("password") or "")
    shown = {str(parts.get(name)) for name in ("user", "host", "dbname")}
    return secret if secret and secret not in shown else None


def describe(url: str) -> str:
    """Where a URL leads, without secrets: user@host:port/name."""
    parts = parse(url)
    host = parts.get("host") or "local socket"
    port = f":{parts['port']}" if parts.get("port") else ""
    user = f"{parts['user']}@" if parts.get("user") else ""
    return f"{user}{host}{port}/{parts.get('dbname', '')}"


def conninfo(url: str, role: str) -> str:
    """The connection string of a process of ours; its bounds come with `Bounded.connect`."""
    parts = parse(url)
    ours = {
        "application_name": f"runner {role}",
        "client_encoding": "UTF8",  # whatever the environment or the server's own says
        "connect_timeout": parts.get("connect_timeout", CONNECT_SECONDS),
        "keepalives_idle": 2,
        "keepalives_interval": 1,
        "keepalives_count": 3,
        "tcp_user_timeout": TCP_MILLISECONDS,
        "target_session_attrs": parts.get("target_session_attrs", "read-write"),
    }
    return make_conninfo("", **(parts | ours))


def connect(
    url: str,
    role: str,
    *,
    statement_seconds: float = STATEMENT_SECONDS,
    more: Mapping[str, str] = NOTHING_MORE,
    factory: type[_Connection] = Bounded,  # type: ignore[assignment]
) -> _Connection:
    """A connection in autocommit mode, bounded in every statement; psycopg.Error when it fails. `more`
    settings go with the bounds."""
    connection = factory.connect(
        conninfo(url, role), autocommit=True, statement_seconds=statement_seconds, more=more
    )
    try:
        if connection.info.server_version < OLDEST_SERVER:
            raise ConfigError(
                f"PostgreSQL {connection.info.server_version // 10000} is too old: 14 or newer"
            )
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def connected(
    url: str,
    role: str,
    wait_seconds: float,
    *,
    statement_seconds: float = STATEMENT_SECONDS,
    waiting: Waiting = _nothing,
) -> Iterator[Bounded]:
    """A connection of the command itself, for as long as nothing is forked.

    Tries for `wait_seconds`; what a retry cannot mend (wrong password, no such database) ends it at
    once. `waiting` is told once, after five seconds, why that takes so long and how many are left.
    Raises ConfigError or DatabaseUnreachable.
    """
    begun = now()
    until = begun + wait_seconds
    while True:
        try:
            conn: Bounded = connect(url, role, statement_seconds=statement_seconds)
            break
        except psycopg.Error as error:
            failure = as_runner_error(error, url)
            if isinstance(failure, ConfigError) or now() >= until:
                raise failure from error
        if now() >= begun + SILENT_SECONDS:
            waiting(failure, until - now())
            waiting = _nothing
        time.sleep(CONNECT_RETRY_SECONDS)
    try:
        yield conn
    finally:
        conn.close()


def ask(
    url: str,
    role: str,
    wait_seconds: float,
    question: Callable[[Bounded], _Answer],
    *,
    waiting: Waiting = _nothing,
) -> _Answer:
    """Connect as `connected` does, and ask; a connection that is lost meanwhile is one more that
    could not be made, so the question must be harmless when it is asked twice."""
    until = now() + wait_seconds
    while True:
        with connected(url, role, max(0.0, until - now()), waiting=waiting) as conn:
            try:
                return question(conn)
            except psycopg.Error as error:
                if not tells_of_server(error) or now() >= until:
                    raise
        time.sleep(CONNECT_RETRY_SECONDS)


def ensure_durable(connection: psycopg.Connection[Any]) -> None:
    """Turn synchronous_commit on where it is less: a handler must not rest on a claim that the server
    can forget (with it off, 10 of 10 immediate restarts did)."""
    connection.execute(query("ensure_durable"))


def knock(connection: psycopg.Connection[Any]) -> None:
    """Ask for nothing, and so read all that the server has said unasked: psycopg.Error, with its own
    words, where that was the session's end."""
    connection.execute(query("knock"))


def is_infrastructure(error: BaseException, connection: psycopg.Connection[Any]) -> bool:
    """Whether an error tells of our connection or server rather than of what was asked."""
    if connection.closed or connection.broken:
        return True
    if not isinstance(error, psycopg.Error):
        return False
    # The same class raised by a handler's other connection, or in a transaction that it has made read
    # only itself, is the handler's failure, hence the check that ours is unusable: 57P01 breaks it,
    # and 25006 comes from a server that has become a standby.
    standby = connection.info.parameter_status("in_hot_standby") == "on"
    return error.sqlstate == "25006" and standby


def tells_of_server(error: psycopg.Error) -> bool:
    """Whether one of OUR statements failed for the server's sake: reconnect and try again.

    0A000 is a prepared statement whose table was altered: only a new connection forgets its plan.
    """
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith((*_INFRASTRUCTURE, "0A000"))


def as_runner_error(error: psycopg.Error, url: str) -> RunnerError:
    """What a failed connection means to the person who typed the command."""
    text = " ".join(str(error).split())
    where = describe(url)
    text = redact(text, password(url))
    if _REFUSED.search(text):
        return ConfigError(f"cannot use the database at {where}: {text}")
    if "session is read-only" in text:
        return DatabaseUnreachable(
            f"the database at {where} is read-only: a standby, or made so",
            hint="give the primary, or several hosts: host1,host2",
        )
    return DatabaseUnreachable(f"cannot reach the database at {where}: {text}")
