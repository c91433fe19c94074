"""Which OS user runs the embedded server: the caller, or another one when the caller is root."""

import fcntl
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import EmbeddedError

OWN_USER = "runner-postgres"
CALL_SECONDS = 60.0


@dataclass(frozen=True)
class Account:
    """The OS user that owns the data and runs the programs of PostgreSQL."""

    uid: int
    gid: int
    name: str

    @property
    def is_caller(self) -> bool:
        """Whether no change of user is needed."""
        return self.uid == os.geteuid()

    @property
    def where_it_may_go(self) -> str:
        """What to do about a place that it cannot reach."""
        return f"as root the server runs as user {self.name}: put RUNNER_HOME where that may go"

    def run(
        self,
        program: Path,
        *arguments: str | Path,
        env: Mapping[str, str],
        log: int | None = None,
        inherit: tuple[int, ...] = (),
    ) -> tuple[int, str]:
        """Run a program as this user, in a session of its own; returns exit code and output.

        The own session keeps Ctrl-C and a kill of the caller's process group away from it. With
        the descriptor `log` the output goes there: a daemon that inherits a pipe never closes it.
        """
        with _told(program):
            done = subprocess.run(
                [program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if log is None else log,
                stderr=subprocess.STDOUT,
                env=dict(env),
                cwd="/",
                umask=0o077,
                start_new_session=True,
                timeout=CALL_SECONDS + 10,
                check=False,
                pass_fds=inherit,
                user=None if self.is_caller else self.uid,
                group=None if self.is_caller else self.gid,
                extra_groups=None if self.is_caller else [],
            )
        return done.returncode, (done.stdout or b"").decode(errors="replace").strip()

    def own(self, path: Path) -> None:
        """Give a path that we have just made to this user."""
        if not self.is_caller:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


@contextmanager
def _told(program: Path) -> Iterator[None]:
    try:
        yield
    except subprocess.TimeoutExpired as error:
        raise EmbeddedError(f"{program} did not end within {error.timeout:.0f} s") from error


def account_for(place: Path) -> Account:
    """The owner of an existing place; else the caller; for root a system user (made once)."""
    uid = place.stat().st_uid if place.exists() else os.geteuid()
    if uid == 0:
        entry = _lookup(OWN_USER) or _create() or _lookup("postgres")
        if entry is None:
            raise EmbeddedError(
                "PostgreSQL refuses to run as root and no other system user could be made",
                hint=f"make one: useradd --system {OWN_USER}",
            )
        return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:  # as in a container with an arbitrary uid; initdb will tell if it minds
        return Account(uid, os.getegid(), str(uid))
    return Account(uid, entry.pw_gid, entry.pw_name)


def _lookup(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _create() -> pwd.struct_passwd | None:
    """Make the system user; None where that is not possible (no useradd, a read-only /etc)."""
    useradd = shutil.which("useradd") or shutil.which("useradd", path="/usr/sbin:/sbin")
    if useradd is None:
        return None
    command = [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", OWN_USER]
    with _alone():
        if (entry := _lookup(OWN_USER)) is not None:
            return entry
        subprocess.run(command, capture_output=True, timeout=CALL_SECONDS, check=False)
        return _lookup(OWN_USER)


@contextmanager
def _alone() -> Iterator[None]:
    """One of our commands at a time, whatever its home: two useradd at one moment may both make the user
    (Debian 13's looks for it before it takes its lock), and the later one's uid replaces the other's."""
    everyone = os.open("/etc", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(everyone, fcntl.LOCK_EX)
        yield
    finally:
        os.close(everyone)
